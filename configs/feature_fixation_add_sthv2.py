# Feature fixation whose gate reads the sum of query, key and value. Paper section 5.3: about .5
# below concatenation (theirs, not measured here).
_base_ = "./feature_fixation_sthv2.py"

model = dict(backbone=dict(fixation=dict(combine="add")))
