# Feature fixation with the gates "Q, K, V, Coo.". Paper Table 4: top-1 65.33 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=dict(scheme="qkv")))
