# A composition of docs/compose.md, small, trained from scratch on the plain motion dataset: windows
# of 2 x 2 x 2 tokens, shifted by half a window in every other block, without a class token.
# python -m lab generate data/motion_plain --preset plain
# mmvidformer train compose_windows_motion
_base_ = "./compose_linear_time_motion.py"

windows = [dict(type="window", size=(2, 2, 2), shift=(n, n, n)) for n in (0, 1)]
model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=96, depth=6, num_heads=4),
        block=[[dict(pattern=window)] for window in windows],
        positions="space_time",
        stem=dict(tubelet=(2, 16, 16)),
        img_size=64,
        clip_len=8,
    )
)
