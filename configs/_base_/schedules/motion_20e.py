# 20 epochs on the plain motion dataset at batch size 32 (2 processes of 16): AdamW without weight
# decay. The temporal position embedding starts at zero. Without an image model to start from,
# directions of motion are learned in 20 epochs only if its learning rate is higher than that of the
# other parameters.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=20, val_interval=5)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="AdamW", lr=1e-3, weight_decay=0.0),
    clip_grad=dict(max_norm=1.0),
    paramwise_cfg=dict(custom_keys={"pos_embed.t": dict(lr_mult=20)}),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=2, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=2, end=20, T_max=18, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=32)
