# TimeSformer-B/16, joint space-time attention, Kinetics-400. Paper Table 1: top-1 77.4
# (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(attention="joint_space_time"))
