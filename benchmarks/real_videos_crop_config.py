# As real_videos_config.py, on a square around what moves, for small people anywhere in the picture.
_base_ = ["./real_videos_config.py"]

sample = _base_.sample
view = [_base_.view[0], dict(type="mmvidformer.CropToMotion"), *_base_.view[1:]]
train_pipeline = [dict(type="mmvidformer.VideoInit"), sample, *view]
val_pipeline = [dict(type="mmvidformer.VideoInit"), dict(**sample, test_mode=True), *view]
test_pipeline = val_pipeline
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
