# ViViT-L/16x2, factorized encoder, clips of 128 frames, Kinetics-400. Paper Table 5a: top-1 81.7,
# top-5 93.8 with 1 x 3 views (not measured here).
_base_ = "./vivit_l_fe_k400.py"

model = dict(backbone=dict(clip_len=128, with_cp=True))
sample = dict(type="SampleFrames", clip_len=128, frame_interval=2, num_clips=1)
train_pipeline = [_base_.train_pipeline[0], sample, *_base_.train_pipeline[2:]]
sample_test = dict(**sample, test_mode=True)
val_pipeline = [_base_.val_pipeline[0], sample_test, *_base_.val_pipeline[2:]]
test_pipeline = [_base_.test_pipeline[0], sample_test, *_base_.test_pipeline[2:]]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
