# TimeSformer-B/16, a position embedding of space alone, Something-Something V2. Paper Table 4:
# top-1 52.5 (theirs, not measured here).
_base_ = "./timesformer_b_sthv2.py"

model = dict(backbone=dict(positions="space"))
