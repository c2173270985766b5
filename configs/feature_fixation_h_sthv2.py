# Feature fixation, variant H: 32 frames. Paper Table 7: top-1 65.67, top-5 90.27
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(clip_len=32))
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
for pipeline in (train_pipeline, val_pipeline, test_pipeline):
    pipeline[1].update(clip_len=32)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
