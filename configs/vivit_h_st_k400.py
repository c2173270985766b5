# ViViT-H/14x2, spatio-temporal attention (model 1), Kinetics-400. Paper Table 5a: top-1 84.9, top-5
# 95.8 with 4 x 3 views (not measured here), from JFT weights that are not public; this config
# starts from ImageNet-21K. The paper writes 16x2, but its TFLOPs are those of patches of 14.
# mmvidformer train vivit_h_st_k400 --procs 8
_base_ = "./vivit_l_st_k400.py"

model = dict(
    backbone=dict(
        arch="h",
        stem=dict(tubelet=(2, 14, 14)),
        init_from=dict(source="timm:vit_huge_patch14_224.orig_in21k"),
    ),
    cls_head=dict(in_channels=1280),
)
