# ViViT-H/14x2, spatio-temporal attention (model 1), Kinetics-600. Paper Table 5b: top-1 85.8, top-5
# 96.5 (not measured here), from JFT weights that are not public; this config starts from
# ImageNet-21K. Patches as in vivit_h_st_k400; the learning rate is that of Table 7 (arXiv).
# mmvidformer train vivit_h_st_k600 --procs 8
_base_ = "./vivit_l_fe_k600.py"

model = dict(
    backbone=dict(
        arch="h",
        scheme="spacetime",
        temporal_depth=4,  # the default; only the factorized encoder has it
        stem=dict(tubelet=(2, 14, 14)),
        with_cp=True,
        init_from=dict(source="timm:vit_huge_patch14_224.orig_in21k"),
    ),
    cls_head=dict(in_channels=1280),
)
optim_wrapper = dict(optimizer=dict(lr=0.1))
