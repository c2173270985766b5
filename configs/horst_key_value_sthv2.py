# HORST with keys of e and values of h instead of both of [e; h], 25% observed. Paper, ablation:
# top-1 30.6, and 33.9 with [e; h] (theirs, not measured here).
_base_ = "./horst_early25_sthv2.py"

model = dict(neck=dict(key_value="e|h"))
