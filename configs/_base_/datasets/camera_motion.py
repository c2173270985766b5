# How a camera moves. Training draws its clips, without files and in their order: a batch has each
# drawing in all its flips, and clips become harder. Testing reads videos at 8 frames per second,
# those of python -m lab generate data/camera --preset camera. Frames keep their aspect ratio:
# the short side has 64 pixels, and a frame of 16:9 has 14 x 8 tokens.
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
    dict(type="PackActionInputs", meta_keys=("velocity", "shake")),
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**clip, include_last=False, num_clips=4, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 64), interpolation="area"),
    dict(type="mmvidformer.CropToMultiple", multiple=8, most=160),
    dict(type="mmvidformer.MeasureStructure"),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs", meta_keys=("clip_len", "structure")),
]

train_dataloader = dict(
    batch_size=64,
    num_workers=1,
    sampler=dict(shuffle=False),
    dataset=dict(
        type="lab.synthetic.camera.dataset.CameraMotionDataset",
        clips=640_000,
        curriculum=(64_000, 256_000),
        copies=16,
        # Square, 4:3, 16:9 and 16:9 upright; two batches of four are wide. A batch of a process has
        # 64 clips, and the clips of two processes take turns: batches of 128 have one size.
        size=[(64, 64), (88, 64), (112, 64), (64, 112)],
        same_size=128,
        # Half of the drawings are slow and steady. The others also have fast pans, several motions
        # at once, and cameras in shaking hands.
        fastest=1.2,
        beside=1.0,
        shakiest=0.02,
        steady=0.5,
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
