# HORST for early recognition (section "Architecture"): a stem of two convolutions and four layers
# of order 8. Uses all observed frames at 224 x 224 pixels; clips in a batch may differ in length.
model = dict(
    type="mmvidformer.RecurrentRecognizer",
    backbone=dict(type="mmvidformer.ConvStem", channels=128),
    neck=dict(
        type="mmvidformer.Horst",
        in_channels=128,
        channels=[128, 256, 512, 512],
        strides=[1, 1, 2, 2],
        order=8,
    ),
    cls_head=dict(
        type="mmvidformer.LastStepHead", num_classes=41, in_channels=512, average_clips="score"
    ),
    # The paper does not say how pixels are normalized; these are ImageNet's RGB statistics.
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        format_shape="NCTHW",
    ),
)
