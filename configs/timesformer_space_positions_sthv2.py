# TimeSformer-B/16, space-only position embedding, Something-Something V2. Paper Table 4: top-1 52.5
# (not measured here).
_base_ = "./timesformer_b_sthv2.py"

model = dict(backbone=dict(positions="space"))
