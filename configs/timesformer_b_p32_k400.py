# TimeSformer-B/32, patches of 32 pixels, Kinetics-400. Paper section 4.7: 3 points below patches of
# 16 pixels (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(
    backbone=dict(patch_size=32, init_from=dict(source="timm:vit_base_patch32_224.augreg_in21k"))
)
