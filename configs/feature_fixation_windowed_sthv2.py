# Feature fixation with windowed attention: frames meet in the temporal shift alone. Paper Table 6:
# top-1 61.08 (theirs, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(attention="windowed"))
