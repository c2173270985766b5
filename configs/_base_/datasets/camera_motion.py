# How a camera moves. Training draws its clips, without files and in their order: a batch has each
# drawing in all its flips, and clips become harder. Testing reads videos at 8 frames per second,
# those of mmvidformer data generate data/camera --preset camera.
_base_ = "../loaders.py"

data_root = "data/camera"
preprocessor = dict(
    type="mmvidformer.VideoDataPreprocessor",
    mean=[118.0, 118.0, 118.0],
    std=[58.0, 58.0, 58.0],
    format_shape="NCTHW",
)
clip = dict(type="mmvidformer.SpanFrames", clip_len=8, frame_interval=1, target_fps=8)
train_pipeline = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs", meta_keys=("velocity",)),
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**clip, include_last=False, num_clips=4, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 64), interpolation="area"),
    dict(type="CenterCrop", crop_size=64),
    dict(type="mmvidformer.MeasureStructure"),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs", meta_keys=("clip_len", "structure")),
]

train_dataloader = dict(
    batch_size=64,
    num_workers=1,
    sampler=dict(shuffle=False),
    dataset=dict(
        type="mmvidformer.CameraMotionDataset",
        clips=960_000,
        curriculum=(100_000, 400_000),
        copies=16,
        pipeline=train_pipeline,
    ),
)
val_dataloader = None  # training needs no files
test_dataloader = dict(
    num_workers=1,
    dataset=dict(
        type="VideoDataset",
        ann_file=data_root + "/test.txt",
        metainfo=dict(classes="labels://camera_motion"),
        data_prefix=dict(video=data_root),
        pipeline=test_pipeline,
        test_mode=True,
    ),
)
val_evaluator = None
test_evaluator = dict(type="AccMetric", metric_list=("top_k_accuracy",))
