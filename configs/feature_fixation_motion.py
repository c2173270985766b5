# Feature fixation, small, on generated clips of changing objects (reports/claims.md).
# python -m lab generate data/motion_cues --preset cues
# mmvidformer train feature_fixation_motion
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/datasets/motion_cues.py",
    "./_base_/schedules/motion_cues.py",
]

model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch=dict(embed_dims=64, depth=2, num_heads=4),
        scheme="time_space",
        img_size=32,
        clip_len=6,
        stem=dict(tubelet=(1, 8, 8)),
        positions="space_time",
        shifts=dict(temporal="temporal", spatial="spatial"),
    ),
    cls_head=dict(
        type="mmvidformer.TokenMlpHead",
        num_classes=8,
        in_channels=64,
        hidden_dim=64,
        dropout_ratio=0.0,
        average_clips="score",
        topk=(1, 2),
    ),
    data_preprocessor=_base_.preprocessor,
)
