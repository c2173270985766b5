# A frozen image model on each of 16 frames of a whole video, for sets of about a hundred videos:
# mmvidformer finetune --config benchmarks/real_videos_config.py --data FOLDER --method temporal \
#     --cfg-options model.backbone.init_from.source=FILE
# FILE has the weights of a ViT-S/14 in timm's names (vit_small_patch14_dinov2).
_base_ = ["../configs/timesformer_b_sthv2.py"]

size = 224
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
        type="mmvidformer.TimeSformer",
        arch="timm:vit_small_patch14_dinov2",
        block=[dict(pattern="space")],  # as divided attention starts
        img_size=size,
        clip_len=16,
        init_from=dict(source="vit_small_patch14_dinov2.pth", positions="bicubic"),
    ),
    cls_head=dict(in_channels=384, topk=(1,)),
    data_preprocessor=dict(
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        augment=[dict(type="mmvidformer.ClipFlip", p=0.5)],
    ),
)
val_evaluator = dict(type="AccMetric", metric_options=dict(top_k_accuracy=dict(topk=(1,))))
test_evaluator = val_evaluator
