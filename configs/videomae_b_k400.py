# VideoMAE-B/16, 16 frames, frame interval 4, Kinetics-400. Official zoo: top-1 81.5 with 5 x 3
# views (not measured here).
# mmvidformer train videomae_b_k400 --procs 8
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/videomae_b.py",
    "./_base_/datasets/videomae_kinetics400.py",
    "./_base_/schedules/videomae_100e.py",
]

mixing = [
    dict(type="MixupBlending", num_classes=400, alpha=0.8),
    dict(type="CutmixBlending", num_classes=400, alpha=1.0),
]
blending = dict(type="RandomBatchAugment", augments=mixing, probs=[0.5, 0.5])
model = dict(data_preprocessor=dict(augment=_base_.augment, blending=blending))
