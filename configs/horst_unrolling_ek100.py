# HORST-url, with an unrolling LSTM on top, anticipation on EPIC-Kitchens-100. Paper: mean top-5
# recall at 1 s for verb, noun, action 24.5, 30.0, 13.2 (not measured here). Backbone weights as in
# horst_ek100.
_base_ = "./horst_ek100.py"

model = dict(cls_head=dict(classifier="unrolling"))
