# Feature fixation with the gates "Q, K, Coo.". Paper Table 4: top-1 64.61 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=dict(scheme="qk")))
