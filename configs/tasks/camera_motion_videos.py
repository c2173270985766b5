# camera_motion for videos of your own, from its weights: what `mmvidformer finetune --config
# camera_motion` trains. The head reads the mean token; the clips are those of the base.
# Not measured here.
# mmvidformer finetune --config camera_motion --data data/my_videos
# mmvidformer train camera_motion_videos    # on the lists in data/camera
_base_ = "../camera_motion.py"

sampled = dict(**_base_.clip, include_last=False)
own_videos = None
train_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(**sampled, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 72), interpolation="area"),
    dict(type="RandomCrop", size=64),
    dict(type="Flip", flip_ratio=0.5),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
frames = [
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 64), interpolation="area"),
    dict(type="CenterCrop", crop_size=64),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
read = dict(type="mmvidformer.VideoInit")
val_pipeline = [read, dict(**sampled, num_clips=1, test_mode=True), *frames]
test_pipeline = [read, dict(**sampled, num_clips=4, test_mode=True), *frames]
videos = dict(
    type="VideoDataset",
    metainfo=dict(classes=_base_.data_root + "/classes.txt"),
    data_prefix=dict(video=_base_.data_root),
)

model = dict(
    backbone=dict(pool="mean"),
    cls_head=dict(
        _delete_=True,
        type="TimeSformerHead",
        num_classes=9,
        in_channels=128,
        average_clips="prob",
        topk=(1,),
    ),
)
train_dataloader = dict(
    batch_size=8,
    num_workers=4,
    sampler=dict(shuffle=True),
    dataset=dict(
        _delete_=True,
        ann_file=_base_.data_root + "/train.txt",
        pipeline=train_pipeline,
        **videos,
    ),
)
val_dataloader = dict(
    _delete_=True,
    batch_size=8,
    num_workers=4,
    persistent_workers=True,
    timeout=300,
    worker_init_fn=_base_.worker_init,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        ann_file=_base_.data_root + "/val.txt", pipeline=val_pipeline, test_mode=True, **videos
    ),
)
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
val_evaluator = dict(_delete_=True, type="AccMetric", metric_list=("top_k_accuracy",))
val_cfg = dict(_delete_=True, type="ValLoop")
train_cfg = dict(max_epochs=30, val_interval=1)
optim_wrapper = dict(optimizer=dict(lr=5e-4))
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=3, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=3, end=30, T_max=27, convert_to_iter_based=True),
]
auto_scale_lr = dict(base_batch_size=8)
default_hooks = dict(checkpoint=dict(by_epoch=True, interval=1, max_keep_ckpts=3))
load_from = "published://camera_motion"
