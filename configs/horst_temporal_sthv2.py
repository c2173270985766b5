# HORST with temporal attention only, equal weights for all positions (S() = 1), 25% observed.
# Paper, ablation: top-1 32.7; with both 33.9 (not measured here).
_base_ = "./horst_early25_sthv2.py"

model = dict(neck=dict(attention="temporal"))
