# Kinetics-600: like Kinetics-400, in another folder.
_base_ = "./kinetics400.py"

data_root = "data/kinetics600"
train_dataloader = dict(
    dataset=dict(
        ann_file=f"{data_root}/kinetics600_train_list_videos.txt",
        metainfo=dict(classes="labels://kinetics600"),
        data_prefix=dict(video=f"{data_root}/videos_train"),
    )
)
val_dataloader = dict(
    dataset=dict(
        ann_file=f"{data_root}/kinetics600_val_list_videos.txt",
        metainfo=dict(classes="labels://kinetics600"),
        data_prefix=dict(video=f"{data_root}/videos_val"),
    )
)
test_dataloader = dict(dataset=val_dataloader["dataset"])
