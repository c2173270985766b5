# Kinetics-400 as the official TimeSformer reads it: 8 frames spread over 8 x 32 frames at 30 frames
# per second, from the start of the video in testing; 1 x 3 test views.
_base_ = "./kinetics400.py"

sample = dict(type="mmvidformer.SpanFrames", clip_len=8, frame_interval=32, target_fps=30)
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
    dict(type="mmvidformer.ThreeCrop", crop_size=224),
    *pack,
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
