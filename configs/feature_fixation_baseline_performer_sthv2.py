# Baseline: Performer in place of feature fixation's attention, no shifts, no gates. Paper Table 1:
# top-1 58.8, top-5 85.4 (theirs, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="performer"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
