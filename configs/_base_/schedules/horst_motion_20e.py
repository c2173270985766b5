# HORST's recipe in 20 epochs, for the generated data: a constant learning rate followed by a cosine
# to 0 in the last quarter; batch size 16 (2 processes of 8).
_base_ = "./horst_50e.py"

train_cfg = dict(max_epochs=20)
param_scheduler = [
    dict(type="CosineAnnealingLR", begin=15, end=20, T_max=5, convert_to_iter_based=True)
]
auto_scale_lr = dict(base_batch_size=16)
