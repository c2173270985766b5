# TimeSformer-B/16, sparse local-global attention, Kinetics-400. Paper Table 1: top-1 75.9
# (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(attention="sparse_local_global"))
