# Linear attention with both shifts (neighborhood association), without gates. Paper Table 3: top-1
# 64.28 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=None))
