# ViViT-B/16x2, factorized dot-product attention (model 4), Kinetics-400. Paper Table 2: top-1 76.3
# with 4 x 1 views (not measured here).
_base_ = "./vivit_st_k400.py"

model = dict(backbone=dict(scheme="factorized_dot_product"))
