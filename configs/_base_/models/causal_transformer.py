# A small transformer in which a token sees its place in its own and the 7 frames before it, and the
# tokens of its frame. There are no positions over time, so a stream may be longer than the clips.
# Clips in a batch may differ in length.
model = dict(
    type="mmvidformer.RecurrentRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=64, depth=4, num_heads=4),
        img_size=32,
        stem=dict(tubelet=(1, 8, 8)),
        block=[dict(pattern=dict(type="causal_time", past=8)), dict(pattern="space")],
        positions="space",
        pool="none",
        init="flax",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[127.5, 127.5, 127.5],
        std=[127.5, 127.5, 127.5],
        format_shape="NCTHW",
    ),
)
