# TimeSformer-B/16, 8 frames, Something-Something V2, initialized from ImageNet-1K. Paper Table 7:
# top-1 59.5; official zoo: 59.1 (not measured here).
# On this dataset only, the official reader appears to have returned BGR frames. For converted
# official weights, add --cfg-options model.data_preprocessor.to_rgb=True, which swaps R and B.
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/timesformer_b.py",
    "./_base_/datasets/timesformer_sthv2.py",
    "./_base_/schedules/timesformer_15e.py",
]

model = dict(
    backbone=dict(init_from=dict(source="timm:vit_base_patch16_224.augreg_in1k")),
    cls_head=dict(num_classes=174),
)
