# ViViT-L/16x2, spatio-temporal attention (model 1), Kinetics-400. Paper Table 4 gives its MACs at
# crops 224, 288 and 320; no figure of ours is measured here.
_base_ = "./vivit_l_fe_k400.py"

model = dict(backbone=dict(scheme="spacetime", temporal_depth=0, with_cp=True))
optim_wrapper = dict(optimizer=dict(lr=0.1))
