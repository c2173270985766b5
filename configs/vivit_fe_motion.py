# ViViT, factorized encoder (model 2), small, trained from scratch on the motion dataset.
# mmvidformer train vivit_fe_motion --procs 2
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/datasets/motion.py",
    "./_base_/schedules/motion_30e.py",
]

model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        scheme="factorized_encoder",
        img_size=64,
        clip_len=16,
        stem=dict(tubelet=(2, 16, 16)),
        temporal_depth=2,
    ),
    cls_head=dict(
        type="TimeSformerHead", num_classes=4, in_channels=96, average_clips="score", topk=(1, 2)
    ),
    data_preprocessor=_base_.preprocessor,
)
