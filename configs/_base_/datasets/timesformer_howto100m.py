# The long-term task of TimeSformer's section 4.6: 1059 tasks of HowTo100M, 85,000 training videos
# and 35,000 test videos. The split is not public: create the two lists yourself, one path and class
# per line. 8 frames, frame interval 32. Test clips tile the whole video.
_base_ = "../loaders.py"

data_root = "data/howto100m"
read = [dict(type="mmvidformer.VideoInit")]
tile = dict(type="mmvidformer.TileFrames", clip_len=8, frame_interval=32)
pack = [dict(type="FormatShape", input_format="NCTHW"), dict(type="PackActionInputs")]
train_pipeline = [
    *read,
    dict(type="SampleFrames", clip_len=8, frame_interval=32, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="RandomRescale", scale_range=(256, 320)),
    dict(type="RandomCrop", size=224),
    *pack,
]
augment = [dict(type="mmvidformer.ClipFlip", p=0.5)]  # for the data preprocessor
val_pipeline = [
    *read,
    tile,
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 224)),
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
    batch_size=2,  # x 8 processes
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
