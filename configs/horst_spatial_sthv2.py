# HORST with attention over places alone, all states alike (T() = 1 / S), 25% observed. Paper,
# ablation: top-1 31.2, and 33.9 with both (theirs, not measured here).
_base_ = "./horst_early25_sthv2.py"

model = dict(neck=dict(attention="spatial"))
