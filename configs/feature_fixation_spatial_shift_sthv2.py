# Linear attention with the spatial shift alone (SS). Paper Table 3: top-1 61.99 (theirs,
# not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=None, shifts=dict(temporal=None)))
