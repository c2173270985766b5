# A causal transformer, small, trained from scratch on generated videos of scripted actions; it runs
# frame by frame (docs/compose.md).
# python -m lab generate data/motion_sequences --preset sequences
# mmvidformer train causal_transformer_anticipation_motion --procs 2
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/causal_transformer.py",
    "./_base_/datasets/motion_anticipation.py",
    "./_base_/schedules/motion_30e.py",
]

model = dict(
    cls_head=dict(
        type="mmvidformer.AnticipationHead",
        tasks=dict(verb=4, noun=4, action=16),
        horizon=14,
        in_channels=64,
    )
)
default_hooks = dict(checkpoint=dict(save_best="action/top1_1.00s"))
