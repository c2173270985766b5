# The causal transformer with a gated linear recurrence in place of attention over time, on generated
# clips of twelve objects: the class is the shape of the first.
# mmvidformer data generate data/motion_recall --preset recall
# mmvidformer train recurrence_recall_motion
_base_ = "./causal_transformer_recall_motion.py"

recurrence = dict(type="recurrence", expand=2, min_decay=0.99)
model = dict(
    backbone=dict(
        arch=dict(depth=2),
        block=[dict(pattern="causal_time", kernel=recurrence), dict(pattern="space")],
    )
)
