# Feature fixation, small, trained from scratch on the plain motion dataset
# (docs/feature_fixation.md).
# python tools/data/make_motion_dataset.py data/motion_plain --preset plain
# tools/dist_train.sh configs/feature_fixation_motion.py 2
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/datasets/motion_plain.py",
    "./_base_/schedules/motion_20e.py",
]

model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        img_size=64,
        clip_len=4,
        stem="patches",
        positions="space_time",
        shifts=dict(temporal="temporal", spatial="spatial"),
    ),
    cls_head=dict(
        type="mmvidformer.TokenMlpHead",
        num_classes=4,
        in_channels=96,
        hidden_dim=96,
        dropout_ratio=0.0,
        average_clips="score",
        topk=(1, 2),
    ),
    data_preprocessor=_base_.preprocessor,
)
