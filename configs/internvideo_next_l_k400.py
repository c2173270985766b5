# InternVideo-Next-L/14, frozen, with a classifier of its attentive pooling, 16 frames of 224 x 224
# pixels, interval 4, Kinetics-400. There is no published classifier (not measured here).
# mmvidformer train internvideo_next_l_k400 --procs 8
_base_ = "./internvideo_next_b_k400.py"

backbone = dict(arch="l", frozen_stages=24, init_from="published://internvideo_next_l")
pooling = dict(out_dim=768)
model = dict(backbone=backbone, cls_head=dict(in_channels=1024, pooling=pooling))
