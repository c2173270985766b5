# Feature fixation, small, from scratch on the motion data set, with a fast table over time; linear
# attention and temporal shift alone: tools/dist_train.sh configs/feature_fixation_motion.py 2
# --cfg-options model.backbone.fixation=None model.backbone.shifts.spatial=None
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/datasets/motion.py",
    "./_base_/schedules/motion_30e.py",
]

model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        img_size=64,
        clip_len=16,
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
optim_wrapper = dict(paramwise_cfg=dict(custom_keys={"pos_embed.t": dict(lr_mult=20)}))
