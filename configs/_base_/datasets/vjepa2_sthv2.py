# Something-Something V2 as V-JEPA 2 is evaluated on it: 16 frames, frame interval 4; crops of 30 to
# 100% of the area and RandAugment; 2 x 3 test views. Flips swap labels that name a side.
_base_ = "./sthv2.py"

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
    dict(type="Resize", scale=(256, 256), keep_ratio=False),
    *pack,
]
augment = [  # for the data preprocessor
    dict(type="mmvidformer.ClipAutoAugment", policy="rand-m7-n4-mstd0.5-inc1"),
    dict(type="mmvidformer.ClipFlip", p=0.5, label_map=_base_.label_map),
]
val_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 256)),
    dict(type="CenterCrop", crop_size=256),
    *pack,
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=2, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 256)),
    dict(type="ThreeCrop", crop_size=256),
    *pack,
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
