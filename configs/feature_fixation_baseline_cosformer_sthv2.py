# Baseline: cosFormer in place of feature fixation's attention, no shifts, no gates. Paper Table 1:
# top-1 62.0, top-5 87.3; Table 9: 61.18 (theirs, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="cosformer"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
