# VideoPrism-B/18, frozen, with an attentive classifier, 16 frames of 288 x 288 pixels, interval 4,
# Kinetics-400. The paper has top-1 82.9 with its own classifier (not measured here).
# mmvidformer train videoprism_b_k400 --procs 8
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/videoprism_b.py",
    "./_base_/datasets/videoprism_kinetics400.py",
    "./_base_/schedules/vjepa2_20e.py",
]


model = dict(data_preprocessor=dict(augment=_base_.augment))
