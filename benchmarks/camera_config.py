# Windows of a camera without a GPU: 16 frames of 112 x 112 pixels, each by an encoder of 1.5
# million random weights, small enough for a core; what changes between frames is classified.
# mmvidformer finetune --config benchmarks/camera_config.py --data FOLDER --method temporal
_base_ = ["../configs/timesformer_b_sthv2.py"]
size = 112
segments = dict(type="mmvidformer.SegmentFrames", clip_len=16)
view = [
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(size, size), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [dict(type="mmvidformer.VideoInit"), segments, *view]
val_pipeline = [dict(type="mmvidformer.VideoInit"), dict(**segments, test_mode=True), *view]
test_pipeline = val_pipeline
train_dataloader = dict(num_workers=0, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(num_workers=0, dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(num_workers=0, dataset=dict(pipeline=test_pipeline))
model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=192, depth=3, num_heads=3),
        stem=dict(tubelet=(1, 16, 16)),
        block=[dict(pattern="space")],
        img_size=size,
        clip_len=16,
        positions="space",
    ),
    cls_head=dict(in_channels=192, topk=(1,)),
    data_preprocessor=dict(
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        augment=[dict(type="mmvidformer.ClipFlip", p=0.5)],
    ),
)
val_evaluator = dict(type="AccMetric", metric_options=dict(top_k_accuracy=dict(topk=(1,))))
test_evaluator = val_evaluator
