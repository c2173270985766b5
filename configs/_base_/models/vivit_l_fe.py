# ViViT-L/16x2, factorized encoder. The temporal depth (Lt) is 24 on Kinetics, from the official
# configs and the paper's MACs, and 4 on Something-Something and EPIC-Kitchens.
_base_ = "./vivit_b_fe.py"

model = dict(
    backbone=dict(
        arch="l",
        temporal_depth=24,
        init_from=dict(source="timm:vit_large_patch16_224.orig_in21k"),
    ),
    cls_head=dict(in_channels=1024),
    test_cfg=dict(max_testing_views=1),
)
