# HORST-url, the unrolling LSTM on top, EPIC-Kitchens-100. Paper: mean top-5 recall at 1 s of verb,
# noun, action 24.5, 30.0, 13.2 (theirs, not measured here). Backbone's weights as for horst_ek100.
_base_ = "./horst_ek100.py"

model = dict(cls_head=dict(classifier="unrolling"))
