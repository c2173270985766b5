# Baseline: softmax attention, without shifts or gates. Paper Table 8: speed only, no accuracy
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(type="softmax"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
