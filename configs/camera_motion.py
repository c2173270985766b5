# How the camera moves: static, pan, tilt, zoom or roll. A ViViT with one encoder, trained on clips
# that are drawn while training; its weights come with the package (docs/camera_motion.md).
# mmvidformer train camera_motion --procs 2
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/datasets/camera_motion.py",
    "./_base_/schedules/camera_motion.py",
]

model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=128, depth=4, num_heads=4),
        stem=dict(tubelet=(8, 8, 8)),
        img_size=64,
        clip_len=8,
        pool="none",
    ),
    cls_head=dict(
        type="mmvidformer.CameraMotionHead",
        num_classes=9,
        in_channels=128,
        loss_cls=dict(type="CrossEntropyLoss", loss_weight=0.3),
        average_clips="prob",
        topk=(1,),
    ),
    data_preprocessor=_base_.preprocessor,
)
# With which finetune and pretrain read videos, which this config does not.
own_videos = "camera_motion_videos"
default_hooks = dict(checkpoint=dict(by_epoch=False, interval=500, max_keep_ckpts=1))
