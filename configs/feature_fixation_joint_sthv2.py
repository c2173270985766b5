# Feature fixation with joint attention over all tokens. Paper Table 6: top-1 58.17
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(attention="joint"))
