# 8 epochs on the cues dataset at batch size 8: AdamW without weight decay. The temporal position
# embedding starts at zero, or equal for all frames; unless its learning rate is higher than that of
# the other parameters, training stays for long where the order of the frames does not matter.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=8, val_interval=2)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="AdamW", lr=5e-4, betas=(0.9, 0.95), weight_decay=0.0),
    clip_grad=dict(max_norm=1.0),
    paramwise_cfg=dict(custom_keys={"pos_embed.t": dict(lr_mult=50)}),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=1, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=1, end=8, T_max=7, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=8)
