# One epoch of drawn clips at a total batch size of 128 (2 processes of 64).
randomness = dict(seed=0)
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=1)
val_cfg = None
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="AdamW", lr=1e-3, betas=(0.9, 0.98), weight_decay=0.05),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
    clip_grad=dict(max_norm=1.0),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, by_epoch=False, end=50),
    dict(type="CosineAnnealingLR", T_max=1, end=1, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=128)
