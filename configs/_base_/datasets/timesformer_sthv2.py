# Something-Something V2 as the official TimeSformer reads it: one frame from each of 8 equal parts
# of the video, the middle frame in testing; 1 x 3 test views; no flips. The short side is sampled
# as 1 / U(1/320, 1/256).
_base_ = "./sthv2.py"

sample = dict(type="mmvidformer.SegmentFrames", clip_len=8)
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    sample,
    dict(type="mmvidformer.VideoDecode"),
    dict(type="mmvidformer.InverseRescale", scale_range=(256, 320)),
    dict(type="RandomCrop", size=224),
    *pack,
]
augment = []
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
