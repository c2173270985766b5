# ViViT-B/16x2, spatio-temporal attention (model 1), Kinetics-400. Paper Table 2: top-1 80.0 with 4
# x 1 views; official zoo: 79.9 (not measured here).
_base_ = "./vivit_fe_k400.py"

model = dict(backbone=dict(scheme="spacetime"))
optim_wrapper = dict(optimizer=dict(lr=0.1))
