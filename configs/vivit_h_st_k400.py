# ViViT-H/16x2, spatio-temporal attention, Kinetics-400. Paper Table 5a: top-1 84.9, top-5 95.8 with
# 4 x 3 views (not measured here), initialized from JFT weights that are not public. There is no
# public image model of this size with 16-pixel patches, so training starts from random weights
# unless init_from is set.
_base_ = "./vivit_l_st_k400.py"

model = dict(
    backbone=dict(arch="h", init_from=None),
    cls_head=dict(in_channels=1280),
)
