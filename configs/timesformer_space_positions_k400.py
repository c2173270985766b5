# TimeSformer-B/16, space-only position embedding, Kinetics-400. Paper Table 4: top-1 77.8
# (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(positions="space"))
