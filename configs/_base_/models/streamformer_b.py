# StreamFormer-B/16, frozen: SigLIP with attention over time before that within frames, in which no
# token sees a later frame, and SigLIP's pooling on all tokens. Pixels are from -1 to 1.
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch="b",
        clip_len=16,
        img_size=224,
        stem=dict(tubelet=(1, 16, 16)),
        # In a stream, each frame after the 16th has the last position.
        block=[
            dict(pattern=dict(type="causal_time", past=16), fc="gated"),
            dict(pattern="space"),
        ],
        positions=dict(type="space_time", rule="bicubic", hold_last=True),
        mlp=dict(type="mlp", act="gelu_tanh"),
        pool="none",
        frozen_stages=12,
        init_from="hf://StreamFormer/streamformer-timesformer",
    ),
    cls_head=dict(
        type="mmvidformer.AttentiveHead",
        num_classes=400,
        in_channels=768,
        num_heads=12,
        pooling="siglip",
        average_clips="prob",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[127.5, 127.5, 127.5],
        std=[127.5, 127.5, 127.5],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=8),
)
