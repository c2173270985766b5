# TimeSformer-B/16, no position embedding, Kinetics-400. Paper Table 4: top-1 75.4
# (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(positions="none"))
