# TimeSformer-B/16, space before time, Kinetics-400. Paper section 4.3: 0.5 points below time before
# space (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(order="reverse"))
