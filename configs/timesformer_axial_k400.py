# TimeSformer-B/16, axial attention, Kinetics-400. Paper Table 1: top-1 73.5 (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(attention="axial"))
