# The motion dataset (python -m lab generate). No flips: they would change the class. Frames keep
# their aspect ratio: the videos are square, but those of mmvidformer finetune may not be. As they
# are square, one crop is tested; --views 4x3 takes three along the longer side.
_base_ = "../loaders.py"

data_root = "data/motion"
clip = dict(type="SampleFrames", clip_len=16, frame_interval=2)
preprocessor = dict(
    type="mmvidformer.VideoDataPreprocessor",
    mean=[127.5, 127.5, 127.5],
    std=[127.5, 127.5, 127.5],
    format_shape="NCTHW",
)
train_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**clip, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="RandomResizedCrop", area_range=(0.7, 1.0), aspect_ratio_range=(0.75, 1.33)),
    dict(type="Resize", scale=(64, 64), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
val_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**clip, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 64)),
    dict(type="CenterCrop", crop_size=64),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**clip, num_clips=4, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 64)),
    dict(type="CenterCrop", crop_size=64),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]


train_dataloader = dict(
    num_workers=1,
    dataset=dict(
        type="VideoDataset",
        ann_file=data_root + "/train.txt",
        metainfo=dict(classes=data_root + "/classes.txt"),
        data_prefix=dict(video=data_root),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    num_workers=1,
    dataset=dict(
        type="VideoDataset",
        ann_file=data_root + "/val.txt",
        metainfo=dict(classes=data_root + "/classes.txt"),
        data_prefix=dict(video=data_root),
        pipeline=val_pipeline,
        test_mode=True,
    ),
)
test_dataloader = dict(
    num_workers=1,
    dataset=dict(
        type="VideoDataset",
        ann_file=data_root + "/test.txt",
        metainfo=dict(classes=data_root + "/classes.txt"),
        data_prefix=dict(video=data_root),
        pipeline=test_pipeline,
        test_mode=True,
    ),
)
val_evaluator = dict(type="AccMetric", metric_options=dict(top_k_accuracy=dict(topk=(1, 2))))
test_evaluator = val_evaluator
