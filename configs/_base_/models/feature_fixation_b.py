# Linear video transformer with feature fixation, 16 frames, with the architecture of the official
# code. The original starts from an image model, pretrained on ImageNet-21K and then fine-tuned on
# ImageNet-1K (lvit_v2_base_patch16_224_in21k_finetune1k), that is not available. To train one on a
# folder of images, use feature_fixation_image.py; to start from it, set
# model.backbone.init_from=CHECKPOINT.
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch=dict(embed_dims=512, depth=12, num_heads=8),
        scheme="time_space",
        img_size=224,
        clip_len=16,
        with_cp="activations",
        kernel=dict(type="linear"),
        fixation=dict(type="qkv_shared", combine="concat"),
        shifts=dict(
            temporal=dict(type="temporal", divisor=4),
            spatial=dict(type="spatial", distance=1),
        ),
        init_from=None,
    ),
    cls_head=dict(
        type="mmvidformer.TokenMlpHead",
        num_classes=174,
        in_channels=512,
        dropout_ratio=0.5,
        average_clips="score",  # the official code sums the logits of the views
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[127.5, 127.5, 127.5],
        std=[127.5, 127.5, 127.5],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=8),
)
