# HORST, small, trained from scratch on generated clips of three objects, one after another: the
# class is the sequence of their shapes (reports/claims.md).
# python -m lab generate data/motion_cues --preset cues
# mmvidformer train horst_cues_motion
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/horst_small.py",
    "./_base_/datasets/motion_cues.py",
    "./_base_/schedules/horst_motion_4e.py",
]

pipeline = _base_.pipeline
pipeline[1] = dict(type="mmvidformer.ObserveFirst", ratio=1.0, frame_interval=1)
model = dict(cls_head=dict(num_classes=8))
train_dataloader = dict(batch_size=16, dataset=dict(pipeline=pipeline))
val_dataloader = dict(dataset=dict(pipeline=pipeline))
test_dataloader = dict(dataset=dict(pipeline=pipeline))
