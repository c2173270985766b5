# ViViT-B/16x2, average-pooling baseline (Table 2, last row), Kinetics-400. Paper: top-1 75.8 with 4
# x 1 views (not measured here).
_base_ = "./vivit_fe_k400.py"

model = dict(backbone=dict(temporal_depth=0))
