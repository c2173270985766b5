# Feature fixation, variant HR: 336 pixels, 25 x 25 tokens per frame. Paper Table 7: top-1 65.85,
# top-5 89.97 (not measured here). The scale jitter used in training is not published; here it is
# scaled with the crop size.
_base_ = "./feature_fixation_sthv2.py"

augment = _base_.augment
augment[1].update(size=336)
model = dict(backbone=dict(img_size=336), data_preprocessor=dict(augment=augment))
train_pipeline = _base_.train_pipeline
train_pipeline[3].update(scale_range=(384, 480))
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
for pipeline in (val_pipeline, test_pipeline):
    pipeline[3].update(scale=(-1, 336))
    pipeline[4].update(crop_size=336)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
