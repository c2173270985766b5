# TimeSformer-L, 96 frames, frame interval 4, Kinetics-400. Paper Table 5: top-1 80.7, top-5 94.7;
# official zoo: 80.6, 94.7 (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(clip_len=96, with_cp=True))
frames = dict(clip_len=96, frame_interval=4)
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
for pipeline in (train_pipeline, val_pipeline, test_pipeline):
    pipeline[1].update(frames)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
