# HORST, small, on generated clips of twelve objects, one in each frame: the class is the shape of
# the first, which nothing later repeats (reports/claims.md).
# python -m lab generate data/motion_recall --preset recall
# mmvidformer train horst_recall_motion --cfg-options model.neck.order=1
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/horst_small.py",
    "./_base_/datasets/motion_recall.py",
    "./_base_/schedules/horst_motion_4e.py",
]

model = dict(cls_head=dict(num_classes=3))
