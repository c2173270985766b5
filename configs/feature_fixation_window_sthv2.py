# Feature fixation with the shifts of the paper's text (A.3) instead of the code's: tau = xi = 1,
# alpha = 0.5. Paper Table 11: top-1 65.5 (not measured here). The paper does not give tau.
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        shifts=dict(
            temporal=dict(_delete_=True, type="temporal_window", radius=1),
            spatial=dict(_delete_=True, type="spatial_cross", radius=1),
        ),
    )
)
