# HORST-url, with an unrolling LSTM on top, anticipation on EPIC-Kitchens-55. Paper: action top-5 at
# 2, 1.75, ..., 0.25 s 25.95, 27.03, 28.24, 29.81, 31.58, 32.68, 34.21, 35.56; mean recall at 1 s
# for verb, noun, action 42.62, 45.68, 12.18 (not measured here). Backbone weights as in horst_ek55.
_base_ = "./horst_ek55.py"

model = dict(cls_head=dict(classifier="unrolling"))
