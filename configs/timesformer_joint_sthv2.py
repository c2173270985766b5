# TimeSformer-B/16, joint space-time attention, Something-Something V2. Paper Table 1: top-1 58.5
# (not measured here). Initialized from ImageNet-21K, like all models in that table.
_base_ = "./timesformer_b_sthv2.py"

source = "timm:vit_base_patch16_224.augreg_in21k"
model = dict(backbone=dict(attention="joint_space_time", init_from=dict(source=source)))
