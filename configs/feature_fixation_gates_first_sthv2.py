# Feature fixation before neighbourhood association. Paper section 5.3: .82 below the other order
# (theirs, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(shift_last=True))
