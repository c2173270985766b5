# A composition of docs/compose.md, small, trained from scratch on the plain motion dataset: a token
# for each frame, then causal attention over the frames.
# python tools/data/make_motion_dataset.py data/motion_plain --preset plain
# tools/train.py configs/compose_causal_motion.py
_base_ = "./timesformer_motion.py"

model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        encoders=[
            dict(frames="pool", cls="mean", positions="space"),
            dict(depth=2, block=[dict(pattern="causal_time")], positions="time"),
        ],
        img_size=64,
        clip_len=4,
    )
)
