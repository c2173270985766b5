# THUMOS-14: segments from saved features of ViViT-B, Kinetics-400, a row for every 4 frames. As
# usual, the split train is that of its validation videos, and the test videos are for testing. Not
# measured here.
# mmvidformer features vivit_fe_k400 published://vivit_fe_k400 data/thumos14 --every 4 \
#     --files --out data/thumos14
# mmvidformer data list data/thumos14/all.csv --task segments
# mmvidformer train features_thumos14
_base_ = [
    "../_base_/default_runtime.py",
    "../_base_/models/segments_features.py",
    "../_base_/datasets/segment_features.py",
    "../_base_/schedules/segments_50e.py",
]

root = "data/thumos14"
data = dict(metainfo=dict(classes=f"{root}/classes.txt"), data_prefix=dict(video=root))
model = dict(cls_head=dict(num_classes=20))
train_dataloader = dict(dataset=dict(ann_file=f"{root}/train.csv", **data))
val_dataloader = dict(dataset=dict(ann_file=f"{root}/test.csv", **data))
test_dataloader = dict(dataset=dict(ann_file=f"{root}/test.csv", **data))
