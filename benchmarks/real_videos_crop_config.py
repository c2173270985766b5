# As real_videos_config.py, on a square around what moves, for small people anywhere in the picture.
_base_ = ["./real_videos_config.py"]

crop = [dict(type="mmvidformer.VideoDecode"), dict(type="mmvidformer.CropToMotion")]
train_pipeline = [*_base_.train_pipeline[:2], *crop, *_base_.train_pipeline[3:]]
val_pipeline = [*_base_.val_pipeline[:2], *crop, *_base_.val_pipeline[3:]]
test_pipeline = val_pipeline
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
