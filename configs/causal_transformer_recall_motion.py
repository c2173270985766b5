# The causal transformer on generated clips of twelve objects, one in each frame: the class is the
# shape of the first, which nothing later repeats.
# mmvidformer data generate data/motion_recall --preset recall
# mmvidformer train causal_transformer_recall_motion
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/causal_transformer.py",
    "./_base_/datasets/motion_recall.py",
    "./_base_/schedules/motion_4e.py",
]

model = dict(
    backbone=dict(
        arch=dict(depth=3), stem=dict(tubelet=(1, 2, 2), convs=(16, 32))
    ),
    cls_head=dict(
        type="mmvidformer.LastStepHead",
        num_classes=3,
        in_channels=64,
        average_clips="score",
        topk=(1, 2),
    ),
)
