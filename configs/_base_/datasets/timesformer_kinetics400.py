# Kinetics-400 for TimeSformer: 8 frames, frame interval 32, from the middle in testing; 1 x 3 test
# views. The official code samples differently: see timesformer_b_official_k400.py.
_base_ = "./kinetics400.py"

sample = dict(
    type="SampleFrames", clip_len=8, frame_interval=32, num_clips=1, out_of_bound_opt="repeat_last"
)
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    sample,
    dict(type="mmvidformer.VideoDecode"),
    dict(type="RandomRescale", scale_range=(256, 320)),
    dict(type="RandomCrop", size=224),
    *pack,
]
augment = [dict(type="mmvidformer.ClipFlip", p=0.5)]  # for the data preprocessor
val_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 224)),
    dict(type="CenterCrop", crop_size=224),
    *pack,
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 224)),
    dict(type="ThreeCrop", crop_size=224),
    *pack,
]
train_dataloader = dict(batch_size=2, dataset=dict(pipeline=train_pipeline))  # x 8 processes
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
