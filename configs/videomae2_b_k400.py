# VideoMAE v2-B/16, distilled from g on Kinetics-710, 16 frames, frame interval 4, Kinetics-400.
# Official zoo: top-1 86.6 with 5 x 3 views (not measured here).
_base_ = "./videomae_b_k400.py"

model = dict(backbone=dict(init_from=None))
