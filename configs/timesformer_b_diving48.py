# TimeSformer-B/16, 8 frames, Diving-48 (labels of 2020), initialized from ImageNet-1K. Paper Table
# 7: top-1 74.9 (not measured here). The paper does not name the image model; DeiT's is chosen
# here. Neither the paper nor the code says how clips were sampled or flipped; this config follows
# Kinetics. HR and L: timesformer/table7.
_base_ = "./timesformer_b_k400.py"

model = dict(
    backbone=dict(init_from=dict(source="timm:deit_base_patch16_224.fb_in1k")),
    cls_head=dict(num_classes=48),
)
data_root = "data/diving48"
train_dataloader = dict(
    dataset=dict(
        ann_file=data_root + "/diving48_train_list_videos.txt",
        metainfo=dict(classes="labels://diving48"),
        data_prefix=dict(video=data_root + "/videos"),
    )
)
test_set = dict(
    ann_file=data_root + "/diving48_val_list_videos.txt",
    metainfo=dict(classes="labels://diving48"),
    data_prefix=dict(video=data_root + "/videos"),
)
val_dataloader = dict(dataset=test_set)
test_dataloader = dict(dataset=test_set)
