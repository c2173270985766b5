# Windows of a camera without a GPU: 16 frames of 112 x 112 pixels, each by an encoder of 1.5
# million random weights, small enough for a core; what changes between frames is classified.
# mmvidformer finetune --config benchmarks/camera_config.py --data FOLDER --method temporal
_base_ = ["./real_videos_config.py"]

init = dict(type="mmvidformer.VideoInit")
small = dict(type="Resize", scale=(112, 112), keep_ratio=False)
view = [_base_.view[0], small, *_base_.view[2:]]
train_pipeline = [init, _base_.segments, *view]
val_pipeline = [init, dict(**_base_.segments, test_mode=True), *view]
test_pipeline = val_pipeline
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=192, depth=3, num_heads=3),
        stem=dict(tubelet=(1, 16, 16)),
        block=[dict(pattern="space")],
        img_size=112,
        clip_len=16,
        positions="space",
    ),
    cls_head=dict(in_channels=192),
)
