# Baseline: LARA in place of feature fixation's attention, no shifts, no gates. Paper Table 1 ("RALA"):
# top-1 63.7, in a model of its own of 102M parameters; here in this backbone (theirs,
# not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(kernel=dict(type="lara"), fixation=None, shifts=dict(temporal=None, spatial=None))
)
