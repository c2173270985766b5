# Kinetics-400 for a classifier on a frozen encoder: 16 frames, frame interval 4, random crops of
# 288; 4 x 3 test views. The paper does not say how it samples; this is V-JEPA's way.
_base_ = "./kinetics400.py"

sample = dict(type="SampleFrames", clip_len=16, frame_interval=4)
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="RandomResizedCrop", area_range=(0.3, 1.0)),
    dict(type="Resize", scale=(288, 288), keep_ratio=False),
    *pack,
]
augment = [dict(type="mmvidformer.ClipFlip", p=0.5)]  # for the data preprocessor
val_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 288)),
    dict(type="CenterCrop", crop_size=288),
    *pack,
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=4, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 288)),
    dict(type="ThreeCrop", crop_size=288),
    *pack,
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
