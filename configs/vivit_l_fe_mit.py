# ViViT-L/16x2, factorized encoder, Moments in Time. Paper Table 5c: top-1 38.5, top-5 64.1 (not
# measured here). Neither the length of its clips nor the frame rate of the videos is published; 32
# frames at interval 2 and 25 per second are most of the 3 seconds.
# mmvidformer train vivit_l_fe_mit --procs 8
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/vivit_l_fe.py",
    "./_base_/datasets/moments_in_time.py",
    "./_base_/schedules/vivit_10e.py",
]

model = dict(
    cls_head=dict(num_classes=339),
    data_preprocessor=dict(augment=_base_.augment),
)
