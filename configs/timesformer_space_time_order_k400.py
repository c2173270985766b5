# TimeSformer-B/16, space before time, Kinetics-400. Paper section 4.3: half a point below time
# before space (theirs, not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(backbone=dict(order="reverse"))
