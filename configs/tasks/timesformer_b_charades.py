# Charades: several of 157 classes a video. TimeSformer-B, 8 frames over 8.5 seconds, from
# Kinetics-400, with TimeSformer's schedule; 10 x 3 views. Not measured here.
# mmvidformer data list data/charades/all.csv --task labels
# mmvidformer train timesformer_b_charades --procs 8
_base_ = "../timesformer_b_k400.py"

root = "data/charades"
data = dict(
    data_prefix=dict(video=root),
    metainfo=dict(classes=f"{root}/classes.txt"),
    multi_class=True,
    num_classes=157,
)
test_pipeline = [
    _base_.test_pipeline[0],
    dict(**_base_.sample, num_clips=10, test_mode=True),
    *_base_.test_pipeline[2:],
]
model = dict(cls_head=dict(_delete_=True, type="mmvidformer.MultiLabelHead", num_classes=157,
                           in_channels=768))  # fmt: skip
train_dataloader = dict(dataset=dict(ann_file=f"{root}/train.txt", **data))
val_dataloader = dict(dataset=dict(ann_file=f"{root}/test.txt", **data))
test_dataloader = dict(dataset=dict(ann_file=f"{root}/test.txt", pipeline=test_pipeline, **data))
val_evaluator = dict(_delete_=True, type="mmvidformer.LabelsMetric")
test_evaluator = val_evaluator
load_from = "published://timesformer_b_k400"
