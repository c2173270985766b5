# Feature fixation with the shifts of the paper's text, over a square of radius 1. Paper Table 11:
# top-1 65.5, top-5 90.1 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        shifts=dict(
            temporal=dict(_delete_=True, type="temporal_window", radius=1),
            spatial=dict(_delete_=True, type="spatial_square", radius=1),
        ),
    )
)
