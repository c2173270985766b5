# HORST, anticipation on EPIC-Kitchens-55. Paper: action top-5 at 2, 1.75, ..., 0.25 s 25.38, 26.37,
# 27.82, 29.16, 30.69, 31.54, 32.52, 33.45; at 1 s top-1 12.6, verb and noun top-5 77.67 and 46.34,
# mean recall for verb, noun, action 36.54, 44.33, 10.94 (not measured here). The frozen backbone is
# RULSTM's BN-Inception (github.com/fpv-iplab/rulstm); without --cfg-options
# model.backbone.init_from=TSN-rgb.pth.tar it is random. HORST-url: horst/table5/horst_url.
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/horst_anticipation.py",
    "./_base_/datasets/epic_kitchens55_anticipation.py",
    "./_base_/schedules/horst_50e.py",
]

model = dict(data_preprocessor=dict(augment=_base_.augment))
default_hooks = dict(checkpoint=dict(save_best="action/top5_1.00s"))
