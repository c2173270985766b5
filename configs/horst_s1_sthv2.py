# HORST of order 1: the last state alone, 25% observed. Paper: top-1 30.7, and 31.2, 33.9, 33.8,
# 32.7 for orders 3, 8, 12, 16, which are model.neck.order (theirs, not measured here).
_base_ = "./horst_early25_sthv2.py"

model = dict(neck=dict(order=1))
