# Baseline: Orthoformer in place of feature fixation's attention, no shifts, no gates. Paper Table 1:
# top-1 63.8, in a model of its own of 102M parameters; here in this backbone, as in Table 8
# (theirs, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="orthoformer"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
