# HORST, early recognition on 41 classes of Something-Something V2, 25% of the frames observed.
# Paper: top-1 33.9 (not measured here). You must write the lists of the 41 classes
# (docs/horst.md). Layers have the form of the released code,
# which produced the paper's results (appendix C). 50%, and the ablations: horst/table1 to table4.
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/horst_early_recognition.py",
    "./_base_/datasets/sthv2_early.py",
    "./_base_/schedules/horst_50e.py",
]

model = dict(data_preprocessor=dict(augment=_base_.augment))
auto_scale_lr = dict(base_batch_size=8)
