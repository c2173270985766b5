# TimeSformer-HR, 16 frames of 448 pixels, frame interval 16, Kinetics-400. Paper Table 5: top-1
# 79.7, top-5 94.4; official zoo: 79.6, 94.0 (not measured here). As in
# the official code, the flattened position table of the image model is resized, which mixes rows.
_base_ = "./timesformer_b_k400.py"

model = dict(
    backbone=dict(img_size=448, clip_len=16, with_cp=True, init_from=dict(positions="nearest_1d"))
)
frames = dict(clip_len=16, frame_interval=16)
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
for pipeline in (train_pipeline, val_pipeline, test_pipeline):
    pipeline[1].update(frames)
    pipeline[3].update(scale=(-1, 448))
    pipeline[4].update(crop_size=448)
train_pipeline[3] = dict(type="RandomRescale", scale_range=(448, 512))
train_pipeline[4] = dict(type="RandomCrop", size=448)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
