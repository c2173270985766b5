# The causal transformer with a gated linear recurrence in place of attention over time, on clips of
# twelve objects, one in each frame: the class is the shape of the first.
# python -m lab generate data/motion_recall --preset recall
# mmvidformer train causal_recurrence_recall_motion
_base_ = "./causal_transformer_recall_motion.py"

# States decay slowly from the start: with the default of 0.9, three epochs stayed at chance.
recurrence = dict(type="recurrence", expand=2, min_decay=0.99)
model = dict(
    backbone=dict(
        arch=dict(depth=2),
        block=[dict(pattern="causal_time", kernel=recurrence), dict(pattern="space")],
    )
)
