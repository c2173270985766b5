# Feature fixation with the gates "Q, K, Sep.". Paper Table 4: top-1 64.46 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=dict(scheme="separate")))
