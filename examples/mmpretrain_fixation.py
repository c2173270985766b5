# MMPretrain: a small image classifier with feature fixation, 64-pixel images, 10 classes. For data
# and schedule, add MMPretrain's own base configs, for example:
# _base_ = ["mmpretrain::_base_/datasets/cifar10_bs16.py", "mmpretrain::_base_/default_runtime.py"]
default_scope = "mmpretrain"
custom_imports = dict(imports=["mmvidformer.registry"], allow_failed_imports=False)
model = dict(
    type="ImageClassifier",
    backbone=dict(
        type="mmaction.mmvidformer.FeatureMaps",
        backbone=dict(
            type="mmvidformer.FeatureFixationTransformer",
            arch=dict(embed_dims=64, depth=2, num_heads=4),
            scheme="windowed",  # spatial attention only: a single frame has no time axis
            img_size=64,
            clip_len=1,
            stem=dict(tubelet=(1, 8, 8)),
            shifts=dict(temporal=None, spatial="spatial"),
            positions="space_time",
        ),
    ),
    neck=dict(type="GlobalAveragePooling"),
    head=dict(type="LinearClsHead", num_classes=10, in_channels=64, topk=(1, 5)),
)
