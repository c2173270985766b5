# EPIC-Kitchens-100 from the official videos and CSV files. Clips of 32 consecutive frames, as the
# official code takes them (section 4.1: every second frame), RandAugment 2/15, 4 x 1 test views as
# in the official README (the official config has 4 x 3). Labels are (noun, verb), as in the
# published head.
_base_ = "../loaders.py"

data_root = "data/epic_kitchens100"
read = [dict(type="mmvidformer.VideoInit"), dict(type="mmvidformer.LimitToSegment")]
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [
    *read,
    dict(type="SampleFrames", clip_len=32, frame_interval=1, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="mmvidformer.ScaleJitter", short_side=256, crop_size=224, ratio_range=(0.9, 1.33)),
    *pack,
]
augment = [  # for the data preprocessor
    dict(type="mmvidformer.ClipFlip", p=0.5),
    dict(type="mmvidformer.ClipRandAugment", num_layers=2, magnitude=15),
]
val_pipeline = [
    *read,
    dict(type="SampleFrames", clip_len=32, frame_interval=1, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 256)),
    dict(type="CenterCrop", crop_size=224),
    *pack,
]
test_pipeline = [
    *read,
    dict(type="SampleFrames", clip_len=32, frame_interval=1, num_clips=4, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 256)),
    dict(type="CenterCrop", crop_size=224),
    *pack,
]

train_dataloader = dict(
    dataset=dict(
        type="mmvidformer.EpicKitchensDataset",
        ann_file=f"{data_root}/EPIC_100_train.csv",
        data_prefix=dict(video=data_root),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    dataset=dict(
        type="mmvidformer.EpicKitchensDataset",
        ann_file=f"{data_root}/EPIC_100_validation.csv",
        data_prefix=dict(video=data_root),
        pipeline=val_pipeline,
        test_mode=True,
    ),
)
test_dataloader = dict(
    dataset=dict(
        type="mmvidformer.EpicKitchensDataset",
        ann_file=f"{data_root}/EPIC_100_validation.csv",
        data_prefix=dict(video=data_root),
        pipeline=test_pipeline,
        test_mode=True,
    ),
)
val_evaluator = dict(type="mmvidformer.MultiTaskAccuracy", tasks=("noun", "verb"))
test_evaluator = val_evaluator
