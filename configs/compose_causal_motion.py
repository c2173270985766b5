# A composition of docs/compose.md, small, trained from scratch on the plain motion dataset: a token
# for every two frames, then causal attention over these.
# python -m lab generate data/motion_plain --preset plain
# mmvidformer train compose_causal_motion
_base_ = "./compose_linear_time_motion.py"

model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        encoders=[
            dict(frames="pool", cls="mean", positions="space"),
            dict(depth=2, block=[dict(pattern="causal_time")], positions="time"),
        ],
        stem=dict(tubelet=(2, 16, 16)),
        img_size=64,
        clip_len=8,
    )
)
