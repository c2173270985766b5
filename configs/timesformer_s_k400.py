# TimeSformer-S/16, based on the small ViT, Kinetics-400. Paper section 4.7: about 5 points below
# the base model (not measured here).
_base_ = "./timesformer_b_k400.py"

source = "timm:vit_small_patch16_224.augreg_in21k"
model = dict(backbone=dict(arch="s", init_from=dict(source=source)), cls_head=dict(in_channels=384))
