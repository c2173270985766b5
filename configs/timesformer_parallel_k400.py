# TimeSformer-B/16, space and time in parallel, Kinetics-400. Paper section 4.3: 0.4 points below
# time before space (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(order="parallel"))
