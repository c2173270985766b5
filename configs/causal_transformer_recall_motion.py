# The causal transformer on generated clips of twelve objects, one in each frame: the class is the
# shape of the first, which nothing later repeats.
# python -m lab generate data/motion_recall --preset recall
# mmvidformer train causal_transformer_recall_motion
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/causal_transformer_last_step.py",
    "./_base_/datasets/motion_recall.py",
    "./_base_/schedules/motion_4e.py",
]

model = dict(backbone=dict(arch=dict(depth=3)), cls_head=dict(num_classes=3))
