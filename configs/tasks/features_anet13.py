# ActivityNet-1.3: segments from saved features of ViViT-B, Kinetics-400, a row for every 16 frames.
# Width, rate, batch size and epochs are those of ActionFormer's official configuration. Not
# measured here.
# mmvidformer features vivit_fe_k400 published://vivit_fe_k400 data/ActivityNet --every 16 \
#     --files --out data/ActivityNet
# mmvidformer data list data/ActivityNet/activity_net.v1-3.min.json --task segments
# mmvidformer train features_anet13
_base_ = [
    "../_base_/default_runtime.py",
    "../_base_/models/segments_features.py",
    "../_base_/datasets/segment_features.py",
    "../_base_/schedules/segments_35e.py",
]

root = "data/ActivityNet"
data = dict(metainfo=dict(classes=f"{root}/classes.txt"), data_prefix=dict(video=root))
pipeline = [dict(**_base_.load, rows=768), _base_.pack]
model = dict(cls_head=dict(num_classes=200, hidden_dim=256))
train_dataloader = dict(
    batch_size=16, dataset=dict(ann_file=f"{root}/train.csv", pipeline=pipeline, **data)
)
val_dataloader = dict(dataset=dict(ann_file=f"{root}/val.csv", **data))
test_dataloader = dict(dataset=dict(ann_file=f"{root}/val.csv", **data))
val_evaluator = dict(ious=[i / 20 for i in range(10, 20)])
test_evaluator = val_evaluator
train_cfg = dict(max_epochs=15)
optim_wrapper = dict(optimizer=dict(lr=1e-3))
param_scheduler = _base_.param_scheduler
param_scheduler[1].update(end=15, T_max=10)
auto_scale_lr = dict(base_batch_size=16)
