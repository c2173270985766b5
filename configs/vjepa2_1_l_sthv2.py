# V-JEPA 2.1-L/16, frozen, with an attentive classifier, 64 frames of 384 x 384 pixels, interval 2,
# Something-Something V2. Settings are those of V-JEPA 2-g. There is no published classifier (not
# measured here).
# mmvidformer train vjepa2_1_l_sthv2 --procs 8
_base_ = "./vjepa2_g_sthv2.py"

backbone = dict(
    arch=dict(_delete_=True, embed_dims=1024, depth=24, num_heads=16),
    stem=dict(tubelet=(2, 16, 16), images=True),
    rope="vjepa2_1",
    layer_norms=[5, 11, 17],
    frozen_stages=24,
    init_from="published://vjepa2_1_l",
)
model = dict(backbone=backbone, cls_head=dict(in_channels=1024))
