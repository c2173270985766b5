# HORST for anticipation on EPIC-Kitchens-55 (section "Architecture"): the frozen BN-Inception of
# RULSTM (github.com/fpv-iplab/rulstm, TSN-rgb.pth.tar) on 14 frames of 256 x 454 pixels, 0.25 s
# apart, and two layers of order 8. Pipelines end with FormatShape('NCTHW') and return RGB frames,
# which the data preprocessor converts to BGR. Without init_from, the frozen backbone is random,
# which is useful only for trying things out:
# --cfg-options model.backbone.init_from=TSN-rgb.pth.tar
tasks = dict(verb=125, noun=352, action=2513)
model = dict(
    type="mmvidformer.RecurrentRecognizer",
    backbone=dict(type="mmvidformer.BNInception", frozen=True, init_from=None),
    neck=dict(type="mmvidformer.Horst", in_channels=1024, channels=[1024, 1024], order=8),
    cls_head=dict(
        type="mmvidformer.AnticipationHead",
        tasks=tasks,
        in_channels=1024,
        classifier="linear",  # or 'unrolling': HORST-url
        form="official",
        horizon=14,
        times=8,
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[104.0, 117.0, 128.0],
        std=[1.0, 1.0, 1.0],
        to_rgb=True,  # swaps the channels, here RGB to BGR
        format_shape="NCTHW",
    ),
)
