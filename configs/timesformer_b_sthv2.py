# TimeSformer-B/16, 8 frames, Something-Something V2. Paper Table 7: top-1 59.5; official zoo: 59.1
# (not measured here). The paper starts from ImageNet-1K here (timesformer/table7/sthv2), the
# official code from the same weights as on Kinetics.
# On this dataset only, the official reader appears to have returned BGR frames. For converted
# official weights, add --cfg-options model.data_preprocessor.to_rgb=True, which swaps R and B.
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/timesformer_b.py",
    "./_base_/datasets/timesformer_sthv2.py",
    "./_base_/schedules/timesformer_15e.py",
]

model = dict(cls_head=dict(num_classes=174))
