# VideoMAE-L/16, 16 frames, frame interval 4, Kinetics-400. Official zoo: top-1 85.2 with 5 x 3
# views (not measured here).
_base_ = "./videomae_b_k400.py"

backbone = dict(arch="l", with_cp=True, init_from="hf://MCG-NJU/videomae-large")
model = dict(backbone=backbone, cls_head=dict(in_channels=1024))
