# 30 epochs on the motion dataset at batch size 16 (2 processes of 8): AdamW without weight decay.
# With twice this learning rate or with weight decay, training can stay at chance.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=30, val_interval=6)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="AdamW", lr=5e-4, weight_decay=0.0), clip_grad=dict(max_norm=1.0)
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=3, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=3, end=30, T_max=27, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=16)
