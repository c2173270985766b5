# Baseline: "Linear Trans.", linear attention with ELU + 1, without shifts or gates. Paper Table 1:
# top-1 60.4, top-5 86.7 (not measured here). With shifts and gates: feature_fixation_elu_sthv2.
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        kernel=dict(feature="elu"), fixation=None, shifts=dict(temporal=None, spatial=None)
    )
)
