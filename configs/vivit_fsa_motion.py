# ViViT, factorized self-attention (model 3), small, trained from scratch on the plain motion
# dataset, for the comparison in docs/compose.md.
# python tools/data/make_motion_dataset.py data/motion_plain --preset plain
# tools/train.py configs/vivit_fsa_motion.py
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
