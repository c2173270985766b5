# Feature fixation by the paper's text alone: patches side by side, space before time, shifts by a
# window, a plain MLP, no offset of the features, positions in space. Its counts of parameters and
# operations are not those of the paper, whose model is feature_fixation_sthv2: top-1 65.5 (theirs,
# not measured here).
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
