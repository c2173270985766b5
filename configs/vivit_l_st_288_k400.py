# ViViT-L/16x2, spatio-temporal attention, crop size 288, Kinetics-400. Paper Table 4: top-1 80.7
# (not measured here).
_base_ = "./vivit_l_st_k400.py"

model = dict(backbone=dict(img_size=288))
size = 288
resized = dict(type="Resize", scale=(-1, size * 8 // 7))
train_pipeline = _base_.train_pipeline
train_pipeline[3].update(short_side=size * 8 // 7)
train_pipeline[4].update(size=size)
center = [resized, dict(type="CenterCrop", crop_size=size)]
val_pipeline = [*_base_.val_pipeline[:3], *center, *_base_.val_pipeline[5:]]
three = [dict(type="Resize", scale=(-1, size)), dict(type="ThreeCrop", crop_size=size)]
test_pipeline = [*_base_.test_pipeline[:3], *three, *_base_.test_pipeline[5:]]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
