# HORST with two layers of 16 and 32 channels, for generated clips of 32 x 32 pixels.
_base_ = "./horst_early_recognition.py"

model = dict(
    backbone=dict(channels=16),
    neck=dict(in_channels=16, channels=[16, 32], strides=[1, 2]),
    cls_head=dict(in_channels=32, topk=(1, 2)),
)
