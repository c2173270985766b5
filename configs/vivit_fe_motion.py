# ViViT factorised encoder (model 2), small, from scratch on the motion data set: the quick start.
# bash tools/quickstart.sh, or: tools/dist_train.sh configs/vivit_fe_motion.py 2
_base_ = ["./_base_/default_runtime.py", "./_base_/datasets/motion.py"]

model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        scheme="factorized_encoder",
        img_size=64,
        clip_len=16,
        tubelet=(2, 16, 16),
        temporal_depth=2,
    ),
    cls_head=dict(
        type="TimeSformerHead", num_classes=4, in_channels=96, average_clips="score", topk=(1, 2)
    ),
    data_preprocessor=_base_.preprocessor,
)
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=30, val_interval=6)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="AdamW", lr=5e-4, weight_decay=0.0), clip_grad=dict(max_norm=1.0)
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=3, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=3, end=30, T_max=27, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=16)
