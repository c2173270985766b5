# Baseline: Orthoformer attention in the backbone of feature fixation (as in Table 8), without
# shifts or gates. Paper Table 1: top-1 63.8, in a different model with 102M parameters
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="orthoformer"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
