# Linear attention with gates (feature fixation), without shifts. Paper Table 3: top-1 62.57
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(shifts=dict(temporal=None, spatial=None)))
