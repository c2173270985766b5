# V-JEPA 2-L/16 with tubelets of two frames, frozen, and the attentive classifier on its tokens.
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch="l",
        clip_len=16,
        img_size=256,
        stem=dict(tubelet=(2, 16, 16)),
        positions="none",
        rope="vjepa2",
        pool="none",
        frozen_stages=24,
        init_from="hf://facebook/vjepa2-vitl-fpc64-256",
    ),
    cls_head=dict(
        type="mmvidformer.AttentiveHead",
        num_classes=174,
        in_channels=1024,
        num_heads=16,  # also for g, whose encoder has 22
        depth=3,
        norm=dict(type="layer", eps=1e-5),
        average_clips="prob",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=6),
)
