# SlowFast 8 x 8 R50 of MMAction2 on EPIC-Kitchens-100, with the heads of noun and verb, for the row
# vivit/table5d/slowfast. Clips of 32 frames, 2 apart; recipe of MMAction2's config of Kinetics-400,
# from which training starts with --start CHECKPOINT. Not measured here.
# mmvidformer train slowfast_r50_ek100 --procs 8
_base_ = [
    "../_base_/default_runtime.py",
    "../_base_/datasets/epic_kitchens100.py",
    "mmaction::_base_/models/slowfast_r50.py",
]

tasks = dict(noun=300, verb=97)
model = dict(
    backbone=dict(resample_rate=4, speed_ratio=4, slow_pathway=dict(fusion_kernel=7)),
    cls_head=dict(
        _delete_=True,
        type="mmvidformer.MultiTaskWrapper",
        tasks=tasks,
        head=dict(type="SlowFastHead", in_channels=2304, spatial_type="avg", dropout_ratio=0.5),
    ),
    data_preprocessor=dict(
        _delete_=True,
        type="mmvidformer.VideoDataPreprocessor",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        format_shape="NCTHW",
        augment=[dict(type="mmvidformer.ClipFlip", p=0.5)],
    ),
)
train_pipeline, val_pipeline, test_pipeline = (
    [{**step, "frame_interval": 2} if step["type"] == "SampleFrames" else step for step in steps]
    for steps in (_base_.train_pipeline, _base_.val_pipeline, _base_.test_pipeline)
)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
default_hooks = dict(checkpoint=dict(save_best="action/top1"))

train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=256, val_interval=5)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="SGD", lr=0.1, momentum=0.9, weight_decay=1e-4),
    clip_grad=dict(max_norm=40, norm_type=2),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.1, begin=0, end=34, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", T_max=256, eta_min=0, begin=0, end=256),
]
auto_scale_lr = dict(enable=False, base_batch_size=64)
