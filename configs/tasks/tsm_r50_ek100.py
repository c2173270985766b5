# TSM R50 of MMAction2 on EPIC-Kitchens-100: one frame of each of 8 parts of an action, with the
# heads of noun and verb, for the rows vivit/table5d/{tsm,trn,tsn}. Recipe of MMAction2's config of
# Something-Something V2. Not measured here.
# mmvidformer train tsm_r50_ek100 --procs 8
_base_ = [
    "../_base_/default_runtime.py",
    "../_base_/datasets/epic_kitchens100.py",
]

tasks = dict(noun=300, verb=97)
model = dict(
    type="Recognizer2D",
    backbone=dict(
        type="ResNetTSM",
        depth=50,
        pretrained="torchvision://resnet50",
        norm_eval=False,
        num_segments=8,
        shift_div=8,
    ),
    cls_head=dict(
        type="mmvidformer.MultiTaskWrapper",
        tasks=tasks,
        head=dict(
            type="TSMHead",
            in_channels=2048,
            num_segments=8,
            spatial_type="avg",
            consensus=dict(type="AvgConsensus", dim=1),
            dropout_ratio=0.5,
            init_std=0.001,
            is_shift=True,
        ),
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        format_shape="NCHW",
    ),
)
scale = dict(type="Resize", scale=(-1, 256))
crops = [
    dict(
        type="MultiScaleCrop",
        input_size=224,
        scales=(1, 0.875, 0.75, 0.66),
        random_crop=False,
        max_wh_scale_gap=1,
        num_fixed_crops=13,
    ),
    dict(type="Resize", scale=(224, 224), keep_ratio=False),
    dict(type="Flip", flip_ratio=0.5),
]
sample = dict(type="SampleFrames", clip_len=1, frame_interval=1, num_clips=8)
decode = dict(type="mmvidformer.VideoDecode")
pack = [dict(type="FormatShape", input_format="NCHW"), dict(type="PackActionInputs")]
train_pipeline = [*_base_.read, sample, decode, scale, *crops, *pack]
center = [decode, scale, dict(type="CenterCrop", crop_size=224), *pack]
val_pipeline = [*_base_.read, dict(**sample, test_mode=True), *center]
test_pipeline = val_pipeline
train_dataloader = dict(batch_size=16, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=16, dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
default_hooks = dict(checkpoint=dict(save_best="action/top1"))

train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=50, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    constructor="TSMOptimWrapperConstructor",
    paramwise_cfg=dict(fc_lr5=True),
    optimizer=dict(type="SGD", lr=0.02, momentum=0.9, weight_decay=0.0005),
    clip_grad=dict(max_norm=20, norm_type=2),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.1, begin=0, end=5),
    dict(type="MultiStepLR", begin=0, end=50, milestones=[25, 45], gamma=0.1),
]
auto_scale_lr = dict(enable=False, base_batch_size=128)
