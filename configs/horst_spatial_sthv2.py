# HORST with spatial attention only, equal weights for all states (T() = 1 / S), 25% observed.
# Paper, ablation: top-1 31.2; with both 33.9 (not measured here).
_base_ = "./horst_early25_sthv2.py"

model = dict(neck=dict(attention="spatial"))
