# ViViT-B, spatio-temporal attention, uniform frame sampling instead of tubelets (Table 1),
# Kinetics-400: 8 frames of a 32-frame clip, the same number of tokens as with tubelets of 4 frames
# (section 4.2). Paper: top-1 78.5 (not measured here).
_base_ = "./vivit_st_k400.py"

model = dict(backbone=dict(clip_len=8, tubelet=(1, 16, 16)))
uniform = dict(type="mmvidformer.UniformFrames", num_frames=8)
train_pipeline = [*_base_.train_pipeline[:2], uniform, *_base_.train_pipeline[2:]]
val_pipeline = [*_base_.val_pipeline[:2], uniform, *_base_.val_pipeline[2:]]
test_pipeline = [*_base_.test_pipeline[:2], uniform, *_base_.test_pipeline[2:]]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
