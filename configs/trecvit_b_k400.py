# TRecViT-B/16, 32 frames of 224 x 224 pixels, interval 2, Kinetics-400. A gated linear recurrence
# over time and attention within frames; pixels are from 0 to 1. Sampling is ViViT's, the schedule
# VideoMAE's, since the authors' code does not train (not measured here).
# mmvidformer train trecvit_b_k400 --procs 8
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/trecvit_b.py",
    "./_base_/datasets/kinetics400.py",
    "./_base_/schedules/videomae_100e.py",
]

model = dict(data_preprocessor=dict(augment=_base_.augment))
