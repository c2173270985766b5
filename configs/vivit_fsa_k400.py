# ViViT-B/16x2, factorized self-attention (model 3), Kinetics-400. Paper Table 2: top-1 77.4 with 4
# x 1 views (not measured here). Space before time; the output projection of temporal attention is
# initialized to zero.
_base_ = "./vivit_st_k400.py"

model = dict(backbone=dict(scheme="factorized_self_attention"))
