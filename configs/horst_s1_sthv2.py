# HORST of order 1, which sees only the last state, 25% observed. Paper: top-1 30.7; for orders 3,
# 8, 12, 16 (model.neck.order) 31.2, 33.9, 33.8, 32.7 (not measured here).
_base_ = "./horst_early25_sthv2.py"

model = dict(neck=dict(order=1))
