# V-JEPA 2.1-B/16, frozen, with an attentive classifier, 64 frames of 384 x 384 pixels, interval 2,
# Something-Something V2. Settings are those of V-JEPA 2-g. There is no published classifier (not
# measured here).
_base_ = "./vjepa2_1_l_sthv2.py"

backbone = dict(
    arch=dict(_delete_=True, embed_dims=768, depth=12, num_heads=12),
    layer_norms=[2, 5, 8],
    frozen_stages=12,
    init_from="published://vjepa2_1_b",
)
model = dict(backbone=backbone, cls_head=dict(in_channels=768))
