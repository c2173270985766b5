# The long-term task of TimeSformer's section 4.6: 1059 tasks of HowTo100M, 85,000 training videos
# and 35,000 test videos. The README of the official code links the lists of the split ("HowTo100M
# Dataset Split"); write them as one path and class per line. 8 frames spread over 8 x 32 frames at
# 30 frames per second (8.5 s). Test clips cover the whole video, with one center crop of a short
# side of 256, as the official code does for one crop.
_base_ = "../loaders.py"

data_root = "data/howto100m"
read = [dict(type="mmvidformer.VideoInit")]
sample = dict(type="mmvidformer.SpanFrames", clip_len=8, frame_interval=32, target_fps=30)
pack = [dict(type="FormatShape", input_format="NCTHW"), dict(type="PackActionInputs")]
train_pipeline = [
    *read,
    sample,
    dict(type="mmvidformer.VideoDecode"),
    dict(type="RandomRescale", scale_range=(256, 320)),
    dict(type="RandomCrop", size=224),
    *pack,
]
augment = [dict(type="mmvidformer.ClipFlip", p=0.5)]  # for the data preprocessor
val_pipeline = [
    *read,
    dict(**sample, num_clips=None),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 256)),
    dict(type="CenterCrop", crop_size=224),
    *pack,
]
test_pipeline = val_pipeline


test_set = dict(
    type="VideoDataset",
    ann_file=f"{data_root}/howto100m_test_list_videos.txt",
    data_prefix=dict(video=f"{data_root}/videos"),
    pipeline=val_pipeline,
    test_mode=True,
)
train_dataloader = dict(
    dataset=dict(
        type="VideoDataset",
        ann_file=f"{data_root}/howto100m_train_list_videos.txt",
        data_prefix=dict(video=f"{data_root}/videos"),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(batch_size=1, dataset=test_set)  # all clips of a video
test_dataloader = dict(batch_size=1, dataset=test_set)
val_evaluator = dict(type="AccMetric")
test_evaluator = val_evaluator
