# TimeSformer, small, on generated clips of objects that replace one another (reports/claims.md).
# python -m lab generate data/motion_cues --preset cues
# mmvidformer train timesformer_motion --cfg-options model.backbone.scheme=axial
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/datasets/motion_cues.py",
    "./_base_/schedules/motion_cues.py",
]

model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.TimeSformer",
        arch=dict(embed_dims=64, depth=2, num_heads=4),
        scheme="divided_space_time",
        positions="space_time",
        img_size=32,
        stem=dict(tubelet=(1, 8, 8)),
        clip_len=6,
        drop_path_rate=0.0,
    ),
    cls_head=dict(
        type="TimeSformerHead", num_classes=8, in_channels=64, average_clips="score", topk=(1, 2)
    ),
    data_preprocessor=_base_.preprocessor,
)
