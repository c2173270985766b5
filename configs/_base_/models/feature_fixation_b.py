# Linear video transformer with feature fixation, 16 frames, with the architecture of the official
# code. The original was initialized from ImageNet-21K weights that are not available. To train such
# weights on a folder of images, use feature_fixation_image.py; to start from them, set
# model.backbone.init_from=CHECKPOINT.
model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch="b",
        attention="time_space",
        img_size=224,
        clip_len=16,
        kernel=dict(type="linear"),
        fixation=dict(scheme="qkv_shared", combine="concat"),
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
)
