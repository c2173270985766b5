# Something-Something V2 for LeVJEPA: 16 of its 12 frames a second at interval 2, crops of 224 x 224
# pixels as of V-JEPA 2, one test view, as streams have.
_base_ = "./vjepa2_sthv2.py"

sample = dict(type="SampleFrames", clip_len=16, frame_interval=2)
train_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="RandomResizedCrop", area_range=(0.3, 1.0)),
    dict(type="Resize", scale=(224, 224), keep_ratio=False),
    *_base_.pack,
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sample, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 224)),
    dict(type="CenterCrop", crop_size=224),
    *_base_.pack,
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
