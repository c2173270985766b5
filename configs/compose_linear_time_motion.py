# A composition of docs/compose.md, small, trained from scratch on the plain motion dataset: softmax
# attention over space, linear attention with gates over time, a class token.
# python -m lab generate data/motion_plain --preset plain
# mmvidformer train compose_linear_time_motion
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/datasets/motion_plain_8f.py",
    "./_base_/schedules/motion_20e.py",
]

model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        stem=dict(tubelet=(2, 16, 16)),
        block=[
            dict(pattern="space"),
            dict(pattern="time", kernel="linear", fixation="qkv_shared"),
        ],
        cls="mean",
        positions="space_time",
        img_size=64,
        clip_len=8,
    ),
    cls_head=dict(
        type="TimeSformerHead", num_classes=4, in_channels=96, average_clips="score", topk=(1, 2)
    ),
    data_preprocessor=_base_.preprocessor,
)
