# VideoPrism-B/18, frozen: attention within 16 frames of 288 x 288 pixels, then over time at each
# place, and the pooling of transformers' classifier on all tokens. Pixels are from 0 to 1.
capped = dict(type="capped", cap=50.0)
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch="b",
        clip_len=16,
        img_size=288,
        stem=dict(tubelet=(1, 18, 18)),
        encoders=[
            dict(
                depth=12,
                block=[dict(pattern="space", kernel=capped)],
                positions=dict(type="space", rule="bilinear"),
            ),
            dict(
                depth=4,
                block=[dict(pattern="time", kernel=capped)],
                positions=dict(type="time", rule="bilinear"),
            ),
        ],
        pool="none",
        frozen_stages=16,
        init_from="hf://google/videoprism-base-f16r288",
    ),
    cls_head=dict(
        type="mmvidformer.AttentiveHead",
        num_classes=400,
        in_channels=768,
        num_heads=12,
        pooling="videoprism",
        average_clips="prob",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[0.0, 0.0, 0.0],
        std=[255.0, 255.0, 255.0],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=3),
)
