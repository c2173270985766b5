# Baseline: Performer attention, without shifts or gates. Paper Table 1: top-1 58.8, top-5 85.4
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="performer"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
