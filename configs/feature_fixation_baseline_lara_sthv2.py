# Baseline: LARA attention in the backbone of feature fixation, without shifts or gates. Paper Table
# 1 ("RALA"): top-1 63.7, in a different model with 102M parameters (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(kernel=dict(type="lara"), fixation=None, shifts=dict(temporal=None, spatial=None))
)
