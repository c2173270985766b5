# TimeSformer-HR, 16 frames of 448 pixels, Something-Something V2. Paper Table 7: top-1 62.2;
# official zoo: 61.8 (not measured here).
_base_ = "./timesformer_b_sthv2.py"

model = dict(
    backbone=dict(img_size=448, clip_len=16, with_cp=True, init_from=dict(positions="nearest_1d"))
)
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
for pipeline in (train_pipeline, val_pipeline, test_pipeline):
    pipeline[1].update(clip_len=16)
    pipeline[3].update(scale=(-1, 448))
    pipeline[4].update(crop_size=448)
train_pipeline[3] = dict(type="mmvidformer.InverseRescale", scale_range=(448, 512))
train_pipeline[4] = dict(type="RandomCrop", size=448)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
