# A gated linear recurrence and attention to the last four frames, both over time (Griffin): one
# remembers, the other compares. The recurrence alone fits the training clips, and is at chance on
# others.
# python -m lab generate data/motion_phases --preset phases
# mmvidformer train causal_recurrence_early_motion --procs 2
_base_ = "./causal_transformer_early_motion.py"

model = dict(
    backbone=dict(
        arch=dict(depth=3),
        block=[
            dict(pattern="causal_time", kernel="recurrence"),
            dict(pattern=dict(type="causal_time", past=4)),
            dict(pattern="space"),
        ],
    )
)
train_cfg = dict(max_epochs=15, val_interval=3)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=2, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=2, end=15, T_max=13, convert_to_iter_based=True),
]
