# ViViT-B/16x2, factorized encoder (model 2). It starts from the ImageNet-21K model of the original
# ViT paper, which ViViT cites.
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.ViViT",
        arch="b",
        scheme="factorized_encoder",
        img_size=224,
        clip_len=32,
        stem=dict(tubelet=(2, 16, 16)),
        with_cp="activations",
        init_from=dict(source="timm:vit_base_patch16_224.orig_in21k", embed="central_frame"),
    ),
    cls_head=dict(
        type="mmvidformer.ZeroInitHead",
        num_classes=400,
        in_channels=768,
        average_clips="score",  # mean of the views' logits, as in the official code
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[127.5, 127.5, 127.5],
        std=[127.5, 127.5, 127.5],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=4),
)
