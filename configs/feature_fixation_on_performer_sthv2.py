# Performer with shifts and gates (NA + FF). Paper Table 9: top-1 63.50 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(kernel=dict(type="performer")))
