# Baseline: "Linear Trans.", linear attention with ELU + 1, no shifts, no gates. Paper Table 1: top-1
# 60.4, top-5 86.7 (theirs, not measured here). With both: feature_fixation_elu_sthv2.
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(feature="elu"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
