# HORST with joint space-time attention from each position to all positions of all states, 25%
# observed. Paper: a row of the ablation of attention (not measured here).
_base_ = "./horst_early25_sthv2.py"

model = dict(neck=dict(attention="joint"))
