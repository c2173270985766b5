# ViViT, factorized self-attention (model 3), small, trained from scratch on the plain motion
# dataset, for the comparison in docs/compose.md.
# python -m lab generate data/motion_plain --preset plain
# mmvidformer train vivit_fsa_motion
_base_ = "./compose_linear_time_motion.py"

model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        scheme="factorized_self_attention",
        img_size=64,
        clip_len=8,
        stem=dict(tubelet=(2, 16, 16)),
    )
)
