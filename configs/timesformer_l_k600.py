# TimeSformer-L, 96 frames, Kinetics-600. Paper Table 6: top-1 82.2, top-5 95.6 (not measured here).
_base_ = "./timesformer_l_k400.py"

model = dict(cls_head=dict(num_classes=600))
data_root = "data/kinetics600"
train_dataloader = dict(
    dataset=dict(
        ann_file=data_root + "/kinetics600_train_list_videos.txt",
        metainfo=dict(classes="labels://kinetics600"),
        data_prefix=dict(video=data_root + "/videos_train"),
    )
)
test_set = dict(
    ann_file=data_root + "/kinetics600_val_list_videos.txt",
    metainfo=dict(classes="labels://kinetics600"),
    data_prefix=dict(video=data_root + "/videos_val"),
)
val_dataloader = dict(dataset=test_set)
test_dataloader = dict(dataset=test_set)
