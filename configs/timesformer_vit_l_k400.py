# TimeSformer based on the large ViT (TimeSformer-L is the long-range model), Kinetics-400. Paper
# section 4.7: 1 point below the base model (not measured here).
_base_ = "./timesformer_b_k400.py"

source = "timm:vit_large_patch16_224.augreg_in21k"
model = dict(
    backbone=dict(arch="l", init_from=dict(source=source)), cls_head=dict(in_channels=1024)
)
