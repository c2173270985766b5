# Generated clips of twelve objects, one in each frame (python -m lab generate --preset recall):
# all frames of 32 x 32 pixels, as they are. 3 classes, the shape of the first.
_base_ = "./motion_cues.py"

data_root = "data/motion_recall"
pipeline = _base_.pipeline
pipeline[1] = dict(type="mmvidformer.ObserveFirst", ratio=1.0, frame_interval=1)


def videos(split):
    return dict(
        dataset=dict(
            ann_file=f"{data_root}/{split}.txt",
            data_prefix=dict(video=data_root),
            metainfo=dict(classes=f"{data_root}/classes.txt"),
            pipeline=pipeline,
        )
    )


train_dataloader = dict(batch_size=16, **videos("train"))
val_dataloader = videos("val")
test_dataloader = videos("test")
