# Plain linear attention: no shifts, no gates. Paper Table 3: top-1 61.67 (theirs,
# not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=None, shifts=dict(temporal=None, spatial=None)))
