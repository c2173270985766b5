# Baseline: Linformer attention, without shifts or gates. Paper Table 1: top-1 57.2, top-5 84.4
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="linformer"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
