# TimeSformer-B/16, space-only attention, Kinetics-400. Paper Table 1: top-1 76.9
# (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(attention="space_only"))
