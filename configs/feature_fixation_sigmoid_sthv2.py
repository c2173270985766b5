# Feature fixation with sigmoid features. Paper Table 5: top-1 63.26 (theirs, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(kernel=dict(feature="sigmoid")))
