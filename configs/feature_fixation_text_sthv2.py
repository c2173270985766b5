# Feature fixation as described in the paper's text alone: non-overlapping patches, space before
# time, shifts over a window, a plain MLP, no feature offset, spatial position embeddings. Its
# parameters and MACs do not match the paper's. The model of the paper is feature_fixation_sthv2
# (top-1 65.5, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        shifts=dict(
            temporal=dict(_delete_=True, type="temporal_window", radius=1),
            spatial=dict(_delete_=True, type="spatial_cross", radius=1),
        ),
        attention="space_time",
        stem="patches",
        kernel=dict(offset=False),
        depthwise=False,
        positions="space_time",
    )
)
