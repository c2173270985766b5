# Windowed softmax attention with a temporal shift, as in XViT, with shifts and gates (NA + FF).
# Paper Table 9: top-1 65.94 on XViT itself, so softmax attention gains nothing (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(attention="windowed", kernel=dict(type="softmax")))
