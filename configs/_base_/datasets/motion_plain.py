# The plain motion dataset (python -m lab generate --preset plain): 4 frames, frame
# interval 3.
_base_ = "./motion.py"

data_root = "data/motion_plain"
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
for pipeline in (train_pipeline, val_pipeline, test_pipeline):
    pipeline[1].update(clip_len=4, frame_interval=3)


def videos(split, pipeline):
    return dict(
        dataset=dict(
            ann_file=f"{data_root}/{split}.txt",
            data_prefix=dict(video=data_root),
            metainfo=dict(classes=f"{data_root}/classes.txt"),
            pipeline=pipeline,
        )
    )


train_dataloader = dict(batch_size=16, **videos("train", train_pipeline))
val_dataloader = videos("val", val_pipeline)
test_dataloader = videos("test", test_pipeline)
