# The plain motion dataset for tubelets of 2 frames: 8 frames, frame interval 2.
_base_ = "./motion_plain.py"

clip = dict(clip_len=8, frame_interval=2)
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
for pipeline in (train_pipeline, val_pipeline, test_pipeline):
    pipeline[1].update(clip)

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
