# V-JEPA 2-H/16, frozen, with an attentive classifier, 16 frames of 256 x 256 pixels, interval 4,
# Something-Something V2. There is no published classifier (not measured here).
_base_ = "./vjepa2_l_sthv2.py"

backbone = dict(arch="h", frozen_stages=32, init_from="hf://facebook/vjepa2-vith-fpc64-256")
model = dict(backbone=backbone, cls_head=dict(in_channels=1280))
