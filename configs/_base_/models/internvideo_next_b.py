# InternVideo-Next-B/14, frozen, and its attentive pooling of all tokens, to be trained with the
# classifier. The query of the pooling is the mean of the tokens.
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch="b",
        clip_len=16,
        img_size=224,
        stem=dict(tubelet=(1, 14, 14), norm="rms", norm_pre="rms"),
        cls="mean",
        registers=3,  # with the class token the four first tokens, which are not read
        norm="rms",
        qkv_bias=False,
        qk_norm=dict(type="rms", whole=True),
        layer_scale=1e-5,
        mlp=dict(type="mlp", act="gelu_tanh"),
        pool="all",
        fc_norm="none",
        frozen_stages=12,
        init_from="published://internvideo_next_b",
    ),
    cls_head=dict(
        type="mmvidformer.AttentiveHead",
        num_classes=400,
        in_channels=768,
        num_heads=16,
        norm=dict(type="layer", eps=1e-5),
        pooling=dict(type="internvideo"),
        average_clips="prob",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=8),
)
