# HORST, small, trained from scratch on generated videos of scripted actions
# (reports/generated_videos.md), with a trained stem instead of the frozen BN-Inception.
# python -m lab generate data/motion_sequences --preset sequences
# mmvidformer train horst_anticipation_motion --procs 2
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/horst_anticipation.py",
    "./_base_/datasets/motion_anticipation.py",
    "./_base_/schedules/horst_motion_20e.py",
]

model = dict(
    backbone=dict(_delete_=True, type="mmvidformer.ConvStem", channels=16),
    neck=dict(in_channels=16, channels=[16, 32], strides=[1, 2]),
    cls_head=dict(tasks=dict(verb=4, noun=4, action=16), in_channels=32),
    data_preprocessor=dict(
        mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=False
    ),
)
default_hooks = dict(checkpoint=dict(save_best="action/top1_1.00s"))
train_dataloader = dict(batch_size=16)  # x 2 processes
auto_scale_lr = dict(base_batch_size=32)
train_cfg = dict(max_epochs=12)
param_scheduler = [
    dict(type="CosineAnnealingLR", begin=9, end=12, T_max=3, convert_to_iter_based=True)
]
