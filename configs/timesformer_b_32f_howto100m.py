# TimeSformer-B/16, 32 frames, frame interval 32 (34.1 s), HowTo100M. Paper Table 8: top-1 61.2
# (not measured here).
_base_ = "./timesformer_b_8f_howto100m.py"

model = dict(backbone=dict(clip_len=32, with_cp=True), test_cfg=dict(max_testing_views=1))
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
for pipeline in (train_pipeline, val_pipeline):
    pipeline[1].update(clip_len=32)
test_pipeline = val_pipeline
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
test_set = dict(pipeline=val_pipeline)
val_dataloader = dict(dataset=test_set)
test_dataloader = dict(dataset=test_set)
