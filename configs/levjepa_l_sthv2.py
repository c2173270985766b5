# LeVJEPA-L/16, frozen, with a linear classifier of its class token, 16 frames of 224 x 224 pixels,
# interval 2, Something-Something V2; it runs frame by frame, too. The paper reports 55.0 of an
# attentive classifier on all tokens (not measured here). Sampling and schedule are V-JEPA 2's.
# mmvidformer train levjepa_l_sthv2 --procs 8
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/levjepa_l.py",
    "./_base_/datasets/levjepa_sthv2.py",
    "./_base_/schedules/vjepa2_20e.py",
]

model = dict(data_preprocessor=dict(augment=_base_.augment))
