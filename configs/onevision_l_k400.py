# OneVision-Encoder-L/14, frozen, with SigLIP's pooling on all tokens, 16 frames of 224 x 224
# pixels, interval 4, Kinetics-400. There is no published classifier (not measured here). Sampling
# is VideoMAE's and the schedule V-JEPA 2's.
# mmvidformer train onevision_l_k400 --procs 8
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/onevision_l.py",
    "./_base_/datasets/videomae_kinetics400.py",
    "./_base_/schedules/vjepa2_20e.py",
]

model = dict(data_preprocessor=dict(augment=_base_.augment))
