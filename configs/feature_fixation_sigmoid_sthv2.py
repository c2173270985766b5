# Feature fixation with sigmoid as the kernel feature. Paper Table 5: top-1 63.26
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(kernel=dict(feature="sigmoid")))
