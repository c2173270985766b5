# Plain linear attention, without shifts or gates. Paper Table 3: top-1 61.67 (not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=None, shifts=dict(temporal=None, spatial=None)))
