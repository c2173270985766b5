# Baseline: cosFormer attention, without shifts or gates. Paper Table 1: top-1 62.0, top-5 87.3;
# Table 9: 61.18 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="cosformer"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
