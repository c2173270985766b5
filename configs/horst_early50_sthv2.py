# HORST, early recognition on 41 classes of Something-Something V2, 50% of the frames observed.
# Paper: top-1 47.8 (not measured here).
_base_ = "./horst_early25_sthv2.py"

train_pipeline = _base_.train_pipeline
test_pipeline = _base_.test_pipeline
ratio = 0.5
for pipeline in (train_pipeline, test_pipeline):
    pipeline[1].update(ratio=ratio)  # ObserveFirst
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
