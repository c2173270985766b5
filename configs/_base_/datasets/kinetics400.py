# Kinetics-400 as prepared by MMAction2. Clips of 32 frames, frame interval 2, at the paper's 25
# frames per second, whatever the files have (section 4.1); MMAction2's sampler spreads the frames
# over all 2.56 seconds. Three test crops of 224 from a short side of 256, as in the official code.
_base_ = "../loaders.py"

data_root = "data/kinetics400"
ann_prefix = "kinetics400"
read = [dict(type="mmvidformer.VideoInit")]
sample = dict(type="SampleFrames", clip_len=32, frame_interval=2, target_fps=25)
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [
    *read,
    dict(**sample, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="mmvidformer.ScaleJitter", short_side=256, crop_size=224, ratio_range=(0.9, 1.33)),
    *pack,
]
# As in DMVR, which shifts brightness by up to 32 levels before the other changes.
jitter = dict(shift=32, contrast=0.4, saturation=0.4, hue=0.2)
augment = [  # for the data preprocessor
    dict(type="mmvidformer.ClipFlip", p=0.5),
    dict(type="mmvidformer.ClipColorJitter", p=0.8, **jitter),
    dict(type="torchvision.transforms.v2.RandomGrayscale", p=0.1),
]
val_pipeline = [
    *read,
    dict(**sample, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 256)),
    dict(type="CenterCrop", crop_size=224),
    *pack,
]
test_pipeline = [
    *read,
    dict(**sample, num_clips=4, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 256)),
    dict(type="mmvidformer.ThreeCrop", crop_size=224),
    *pack,
]

train_dataloader = dict(
    dataset=dict(
        type="VideoDataset",
        ann_file=f"{data_root}/{ann_prefix}_train_list_videos.txt",
        metainfo=dict(classes="labels://kinetics400"),
        data_prefix=dict(video=f"{data_root}/videos_train"),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    dataset=dict(
        type="VideoDataset",
        ann_file=f"{data_root}/{ann_prefix}_val_list_videos.txt",
        metainfo=dict(classes="labels://kinetics400"),
        data_prefix=dict(video=f"{data_root}/videos_val"),
        pipeline=val_pipeline,
        test_mode=True,
    ),
)
test_dataloader = dict(
    dataset=dict(
        type="VideoDataset",
        ann_file=f"{data_root}/{ann_prefix}_val_list_videos.txt",
        metainfo=dict(classes="labels://kinetics400"),
        data_prefix=dict(video=f"{data_root}/videos_val"),
        pipeline=test_pipeline,
        test_mode=True,
    ),
)
val_evaluator = dict(type="AccMetric")
test_evaluator = val_evaluator
