# Kinetics-400 as VideoMAE is fine-tuned on it: 16 frames, frame interval 4; crops of 8 to 100% of
# the area, RandAugment and erasing; 5 x 3 test views with a short side of 224. RandAugment sees the
# crops, in the official code whole frames. Without its repeated samples.
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
    dict(type="RandomResizedCrop"),
    dict(type="Resize", scale=(224, 224), keep_ratio=False),
    *pack,
]
augment = [  # for the data preprocessor
    dict(type="mmvidformer.ClipAutoAugment", policy="rand-m7-n4-mstd0.5-inc1"),
    dict(type="mmvidformer.ClipFlip", p=0.5),
    dict(type="torchvision.transforms.v2.RandomErasing", p=0.25, scale=(0.02, 1 / 3), value=128),
]
val_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 224)),
    dict(type="CenterCrop", crop_size=224),
    *pack,
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=5, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 224)),
    dict(type="ThreeCrop", crop_size=224),
    *pack,
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
