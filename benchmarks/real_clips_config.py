# A small ViViT with joint attention for the clips of real cameras (benchmarks/real_clips.py), which
# is trained from random weights. The clips have 16 frames a second. Tests are of whole videos, with
# about twice as many: there, every second frame is taken.
# mmvidformer train benchmarks/real_clips_config.py
_base_ = [
    "../configs/_base_/default_runtime.py",
    "../configs/_base_/datasets/motion_plain_8f.py",
    "../configs/_base_/schedules/motion_20e.py",
]

root = "data/real_clips"
size = 112
clip = dict(type="SampleFrames", clip_len=16, frame_interval=1)
train_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**clip, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="RandomResizedCrop", area_range=(0.4, 1.0), aspect_ratio_range=(0.75, 1.33)),
    dict(type="Resize", scale=(size, size), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
view = [
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, size)),
    dict(type="CenterCrop", crop_size=size),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
val_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**clip, num_clips=1, test_mode=True),
    *view,
]
test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=16, frame_interval=2, num_clips=1, test_mode=True),
    *view,
]
lists = dict(metainfo=dict(classes=root + "/classes.txt"), data_prefix=dict(video=root))
train_list = dict(ann_file=root + "/train.txt", pipeline=train_pipeline, **lists)
val_list = dict(ann_file=root + "/val.txt", **lists)
train_dataloader = dict(batch_size=16, dataset=train_list)
val_dataloader = dict(batch_size=16, dataset=dict(pipeline=val_pipeline, **val_list))
test_dataloader = dict(batch_size=1, dataset=dict(pipeline=test_pipeline, **val_list))

val_evaluator = dict(metric_options=dict(top_k_accuracy=dict(topk=(1,))))
test_evaluator = val_evaluator

model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=128, depth=4, num_heads=4),
        scheme="spacetime",
        img_size=size,
        clip_len=16,
        stem=dict(tubelet=(2, 16, 16)),
    ),
    cls_head=dict(
        type="TimeSformerHead", num_classes=2, in_channels=128, average_clips="score", topk=(1,)
    ),
    data_preprocessor=_base_.preprocessor,
)
train_cfg = dict(max_epochs=4, val_interval=1)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=1, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=1, end=4, T_max=3, convert_to_iter_based=True),
]
