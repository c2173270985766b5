# 4 epochs at batch size 16: AdamW without weight decay.
_base_ = "./motion_30e.py"

train_cfg = dict(max_epochs=4, val_interval=1)
optim_wrapper = dict(optimizer=dict(lr=1e-3))
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=1, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=1, end=4, T_max=3, convert_to_iter_based=True),
]
