# TimeSformer-B/16, sparse local-global attention, Something-Something V2. Paper Table 1: top-1 56.3
# (not measured here). Initialized from ImageNet-21K, like all models in that table.
_base_ = "./timesformer_b_sthv2.py"

source = "timm:vit_base_patch16_224.augreg_in21k"
model = dict(backbone=dict(attention="sparse_local_global", init_from=dict(source=source)))
