# Baseline: windowed softmax attention with a temporal shift, as in XViT, in the backbone of feature
# fixation. Paper Table 9: top-1 66.20 for XViT itself, which is wider and has a class token
# (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        attention="windowed", kernel=dict(type="softmax"), fixation=None, shifts=dict(spatial=None)
    )
)
