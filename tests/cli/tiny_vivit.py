"""A config for the tests of the tools; the fixture fills in the data."""

_base_ = "mmaction::_base_/default_runtime.py"
custom_imports = dict(imports=["mmvidformer.registry"], allow_failed_imports=False)

model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=16, depth=2, num_heads=2),
        img_size=32,
        clip_len=4,
        stem=dict(tubelet=(2, 16, 16)),
        temporal_depth=1,
    ),
    cls_head=dict(type="TimeSformerHead", num_classes=3, in_channels=16, average_clips="score"),
    data_preprocessor=dict(
        type="ActionDataPreprocessor", mean=[127.5] * 3, std=[127.5] * 3, format_shape="NCTHW"
    ),
)
pipeline = [
    dict(type="DecordInit", num_threads=1),
    dict(type="SampleFrames", clip_len=4, frame_interval=2, num_clips=1, test_mode=True),
    dict(type="DecordDecode"),
    dict(type="Resize", scale=(-1, 36)),
    dict(type="CenterCrop", crop_size=32),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_dataloader = dict(
    batch_size=4,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=True),
    dataset=dict(type="VideoDataset", ann_file="", data_prefix=dict(video=""), pipeline=pipeline),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="VideoDataset",
        ann_file="",
        data_prefix=dict(video=""),
        pipeline=pipeline,
        test_mode=True,
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="AccMetric")
test_evaluator = val_evaluator
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=3)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="SGD", lr=0.5, momentum=0.9), clip_grad=dict(max_norm=0.05)
)
param_scheduler = [dict(type="CosineAnnealingLR", T_max=3, by_epoch=True)]
auto_scale_lr = dict(enable=False, base_batch_size=4)
