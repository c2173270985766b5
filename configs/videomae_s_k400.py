# VideoMAE-S/16, 16 frames, frame interval 4, Kinetics-400. Official zoo: top-1 79.0 with 5 x 3
# views (not measured here).
_base_ = "./videomae_b_k400.py"

model = dict(backbone=dict(arch="s", init_from=None), cls_head=dict(in_channels=384))
