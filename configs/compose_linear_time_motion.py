# A composition of docs/compose.md, small, trained from scratch on the plain motion dataset: softmax
# attention over space, linear attention with gates over time, a class token.
# python tools/data/make_motion_dataset.py data/motion_plain --preset plain
# tools/train.py configs/compose_linear_time_motion.py
_base_ = "./timesformer_motion.py"

model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        block=[
            dict(pattern="space"),
            dict(pattern="time", kernel="linear", fixation="qkv_shared"),
        ],
        cls="mean",
        positions="space_time",
        img_size=64,
        clip_len=4,
    )
)
