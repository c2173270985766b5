# Baseline: softmax attention in place of feature fixation's attention, no shifts, no gates. Paper
# Table 8 gives its speed, but no accuracy (theirs, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="softmax"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
