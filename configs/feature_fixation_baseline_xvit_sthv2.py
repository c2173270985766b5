# Baseline: windowed softmax attention with a temporal shift, as XViT has it, in this backbone. Paper
# Table 9: top-1 66.20 for XViT itself, which is wider and has a class token (theirs,
# not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(
    backbone=dict(
        attention="windowed", kernel=dict(type="softmax"), fixation=None, shifts=dict(spatial=None)
    )
)
