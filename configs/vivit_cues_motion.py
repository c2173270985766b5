# ViViT, small, on generated clips of objects that replace one another (reports/claims.md).
# python -m lab generate data/motion_cues --preset cues
# mmvidformer train vivit_cues_motion \
#     --cfg-options model.backbone.{scheme=spacetime,temporal_depth=4}
_base_ = "./timesformer_motion.py"

model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=64, depth=2, num_heads=4),
        scheme="factorized_encoder",
        img_size=32,
        clip_len=6,
        stem=dict(tubelet=(2, 8, 8)),
        temporal_depth=1,
    )
)
train_cfg = dict(max_epochs=12)
param_scheduler = _base_.param_scheduler
param_scheduler[1].update(end=12, T_max=11)
