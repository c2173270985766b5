# HORST, anticipation on EPIC-Kitchens-55. Paper: action top-5 at 2, 1.75, ..., 0.25 s 25.38, 26.37,
# 27.82, 29.16, 30.69, 31.54, 32.52, 33.45; mean recall at 1 s of verb, noun, action 36.54, 44.33,
# 10.94 (theirs, not measured here). The frozen backbone is RULSTM's BN-Inception, and random
# without --cfg-options model.backbone.init_from=TSN-rgb.pth.tar (github.com/fpv-iplab/rulstm). The
# paper's batch of 32 is that of four devices.
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/horst_anticipation.py",
    "./_base_/datasets/epic_kitchens55_anticipation.py",
    "./_base_/schedules/horst_50e.py",
]

default_hooks = dict(checkpoint=dict(save_best="action/top5_1.00s"))
