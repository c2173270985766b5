# Feature fixation's backbone, pretrained on a folder of images in ImageNet's layout. All results of
# the paper start from a model that is not available: ImageNet-21K, then fine-tuned on ImageNet-1K.
# Its training is not described, so this config follows DeiT's on ImageNet-1K (DeiT evaluates
# without the moving average that its code keeps); its accuracy is not measured here. To start a
# video model from the result, use --cfg-options model.backbone.init_from=CHECKPOINT; its temporal
# attention is initialized from the spatial attention. Shifts are off: on a single frame, the
# temporal shift would only insert zeros.
# mmvidformer train feature_fixation_image --procs 8
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/feature_fixation_b.py",
    "./_base_/datasets/image_folder.py",
    "./_base_/schedules/image_300e.py",
]

model = dict(
    backbone=dict(
        scheme="windowed",
        clip_len=1,
        shifts=dict(temporal=None, spatial=None),
        positions="none",
        drop_path_rate=0.1,
    ),
    cls_head=dict(num_classes=1000, dropout_ratio=0.0, label_smooth_eps=0.1),
    data_preprocessor=dict(augment=_base_.augment, blending=_base_.blending),
)
