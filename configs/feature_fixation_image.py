# Pretrains feature fixation's backbone on a folder of images (ImageNet's layout): the paper's image
# weights, on which all its figures rest, are not to be had. Theirs is not described; the training
# is DeiT's, and what it reaches is not measured here. A video model starts from it by
# --cfg-options model.backbone.init_from=CHECKPOINT; its attention over time gets the weights of the
# attention over space. No shifts: of a single frame the one over time would leave zeros.
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/feature_fixation_b.py",
    "./_base_/datasets/image_folder.py",
    "./_base_/schedules/image_300e.py",
]

model = dict(
    backbone=dict(
        attention="windowed",
        clip_len=1,
        shifts=dict(temporal=None, spatial=None),
        positions="none",
        drop_path_rate=0.1,
    ),
    cls_head=dict(num_classes=1000, dropout_ratio=0.0, label_smooth_eps=0.1),
    data_preprocessor=dict(blending=dict(type="MixupBlending", num_classes=1000, alpha=0.8)),
)
