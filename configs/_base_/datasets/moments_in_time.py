# Moments in Time (339 classes, 3-second clips): the Kinetics recipe, in another folder.
_base_ = "./kinetics400.py"

data_root = "data/mit"
train_dataloader = dict(
    dataset=dict(
        ann_file=f"{data_root}/mit_train_list_videos.txt",
        metainfo=dict(classes="labels://moments_in_time"),
        data_prefix=dict(video=f"{data_root}/videos/training"),
    )
)
val_dataloader = dict(
    dataset=dict(
        ann_file=f"{data_root}/mit_val_list_videos.txt",
        metainfo=dict(classes="labels://moments_in_time"),
        data_prefix=dict(video=f"{data_root}/videos/validation"),
    )
)
test_dataloader = dict(dataset=val_dataloader["dataset"])
