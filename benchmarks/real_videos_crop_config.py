# As real_videos_config.py, on a square around what moves, for small people anywhere in the picture.
_base_ = ["./real_videos_config.py"]

segments = dict(type="mmvidformer.SegmentFrames", clip_len=16)
view = [_base_.view[0], dict(type="mmvidformer.CropToMotion"), *_base_.view[1:]]
train_pipeline = [dict(type="mmvidformer.VideoInit"), segments, *view]
val_pipeline = [dict(type="mmvidformer.VideoInit"), dict(**segments, test_mode=True), *view]
test_pipeline = val_pipeline
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
