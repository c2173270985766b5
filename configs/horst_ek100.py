# HORST, anticipation on EPIC-Kitchens-100, layers of 512 channels. Paper: mean top-5 recall at 1 s
# for verb, noun, action 23.8, 29.2, 13.2 (not measured here). The paper counts 3087 actions; the
# public actions.csv has 3806. The frozen backbone is RULSTM's BN-Inception
# (github.com/fpv-iplab/rulstm); without --cfg-options model.backbone.init_from=FILE it is random.
# RULSTM lists TSN-rgb-ek100.pth.tar for this dataset and TSN-rgb.pth.tar for EPIC-Kitchens-55; the
# paper does not say which it used. HORST-url: horst/table7/horst_url.
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/horst_anticipation.py",
    "./_base_/datasets/epic_kitchens100_anticipation.py",
    "./_base_/schedules/horst_50e.py",
]

model = dict(
    neck=dict(channels=[512, 512]),
    cls_head=dict(tasks=dict(verb=97, noun=300, action=3806), in_channels=512),
    data_preprocessor=dict(augment=_base_.augment),
)
default_hooks = dict(checkpoint=dict(save_best="action/recall5_1.00s"))
