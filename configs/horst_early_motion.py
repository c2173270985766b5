# HORST, small, trained from scratch on generated clips whose class is only visible over time
# (reports/generated_videos.md).
# python -m lab generate data/motion_phases --preset phases
# mmvidformer train horst_early_motion --procs 2
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/horst_small.py",
    "./_base_/datasets/motion_early.py",
    "./_base_/schedules/horst_motion_20e.py",
]

model = dict(cls_head=dict(num_classes=8))
