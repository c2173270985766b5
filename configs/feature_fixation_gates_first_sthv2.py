# Feature fixation before neighborhood association. Paper section 5.3: 0.82 points below the other
# order (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(shift_last=True))
