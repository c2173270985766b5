# VideoMAE-B/16 with tubelets of two frames: joint attention, fixed positions, no class token.
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch="b",
        clip_len=16,
        img_size=224,
        stem=dict(tubelet=(2, 16, 16)),
        positions=dict(type="joint", fixed="flat"),
        qkv_bias="qv",
        fc_norm="layer",
        drop_path_rate=0.1,
        with_cp="activations",
        init_from="hf://MCG-NJU/videomae-base",
    ),
    cls_head=dict(
        type="TimeSformerHead",
        num_classes=400,
        in_channels=768,
        dropout_ratio=0.0,
        label_smooth_eps=0.1,
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
