# Linear video transformer with feature fixation, 16 frames: the layout of the official code. It
# started from weights for ImageNet-21K that are not to be had: feature_fixation_image.py trains
# such a model on a folder of images, and model.backbone.init_from=CHECKPOINT starts from it.
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
        type="ActionDataPreprocessor",
        mean=[127.5, 127.5, 127.5],
        std=[127.5, 127.5, 127.5],
        format_shape="NCTHW",
    ),
)
