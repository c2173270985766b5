# TRecViT-B/16: a gated linear recurrence over time, attention within frames, and a token in each
# frame, which the classifier reads. Pixels are from 0 to 1.
recurrence = dict(type="recurrence", expand=2, width=4, min_decay=0.5)
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch="b",
        clip_len=32,
        img_size=224,
        stem=dict(tubelet=(1, 16, 16)),
        block=[
            dict(pattern="causal_time", kernel=recurrence, norm="rms"),
            dict(pattern="space"),
        ],
        positions="space",
        frames="token",
        mlp=dict(type="mlp", act="gelu_tanh"),
        init="flax",
        pool="none",
        with_cp="activations",
    ),
    cls_head=dict(
        type="mmvidformer.HiddenLayerHead",
        num_classes=400,
        in_channels=768,
        hidden_dim=3072,
        act="tanh",
        average_clips="prob",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[0.0, 0.0, 0.0],
        std=[255.0, 255.0, 255.0],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=4),
)
