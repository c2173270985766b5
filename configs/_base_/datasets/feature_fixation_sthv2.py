# Something-Something V2 for feature fixation: one frame from each of 16 segments, 2 x 3 test views
# (middles and starts of the segments). AutoAugment on whole frames, random erasing, no flips. The
# released code resizes after AutoAugment, here workers do before it.
_base_ = "./sthv2.py"

sample = dict(type="mmvidformer.SegmentFrames", clip_len=16)
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="RandomRescale", scale_range=(256, 320)),
    *pack,
]
augment = [  # for the data preprocessor: AutoAugment sees whole frames
    dict(type="mmvidformer.ClipAutoAugment", policy="v0"),
    dict(type="torchvision.transforms.v2.RandomCrop", size=224),
    dict(type="torchvision.transforms.v2.RandomErasing", p=0.5, scale=(0.02, 1 / 3), value=128),
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
    dict(**sample, num_clips=2, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 224)),
    dict(type="mmvidformer.ThreeCrop", crop_size=224),
    *pack,
]
train_dataloader = dict(batch_size=4, dataset=dict(pipeline=train_pipeline))  # x 8 processes
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
