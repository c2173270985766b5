# VideoPrism-L/18, frozen, with an attentive classifier, 8 frames of 288 x 288 pixels, interval 8,
# Kinetics-400. The paper has top-1 85.0 with its own classifier (not measured here).
_base_ = "./videoprism_b_k400.py"

encoders = _base_.model.backbone.encoders
encoders[0].depth = 24
init_from = "hf://google/videoprism-large-f8r288"
sizes = dict(arch="l", clip_len=8, encoders=encoders)
backbone = dict(**sizes, frozen_stages=28, init_from=init_from)
model = dict(backbone=backbone, cls_head=dict(in_channels=1024, num_heads=16))
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
for pipeline in (train_pipeline, val_pipeline, test_pipeline):
    pipeline[1].update(clip_len=8, frame_interval=8)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
