# ViViT-L/16x2, factorized encoder, Kinetics-600. Paper Table 5b: top-1 82.9, top-5 94.6; official
# zoo: 81.6 (not measured here).
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/vivit_l_fe.py",
    "./_base_/datasets/kinetics600.py",
    "./_base_/schedules/vivit_30e.py",
]

model = dict(
    cls_head=dict(num_classes=600),
    data_preprocessor=dict(augment=_base_.augment),
)
optim_wrapper = dict(optimizer=dict(lr=0.05))
