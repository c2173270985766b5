# Linear attention with the temporal shift only (TS). Paper Table 3: top-1 64.18
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=None, shifts=dict(spatial=None)))
