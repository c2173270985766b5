# Feature fixation with windowed attention: frames interact only through the temporal shift. Paper
# Table 6: top-1 61.08 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(attention="windowed"))
