# OneVision-Encoder-L/14, frozen, with SigLIP's pooling on all tokens. Its frames are spread over 64
# places in time. Pixels are normalized as CLIP's.
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch="l",
        clip_len=16,
        img_size=224,
        stem=dict(tubelet=(1, 14, 14)),
        positions="none",
        rope=dict(type="onevision", base=10000.0, span=64),
        mlp=dict(type="mlp", act="gelu"),
        norm_pre=True,
        pool="none",
        frozen_stages=24,
        init_from="published://onevision_l",
    ),
    cls_head=dict(
        type="mmvidformer.AttentiveHead",
        num_classes=400,
        in_channels=1024,
        num_heads=16,
        norm="rms",
        pooling=dict(type="siglip", act="gelu"),
        average_clips="prob",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[122.771, 116.746, 104.094],
        std=[68.501, 66.632, 70.323],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=8),
)
