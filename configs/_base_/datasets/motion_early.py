# Generated motions in three phases (python -m lab generate --preset phases) for early
# recognition: the first part of each clip, frame interval 3, 32 x 32 pixels. Clips in a batch
# differ in length. 8 classes.
_base_ = "../loaders.py"

data_root = "data/motion_phases"
pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="mmvidformer.ObserveFirst", ratio=1.0, frame_interval=3),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(32, 32), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]


def clips(split):
    return dict(
        type="VideoDataset",
        ann_file=f"{data_root}/{split}.txt",
        metainfo=dict(classes=f"{data_root}/classes.txt"),
        data_prefix=dict(video=data_root),
        pipeline=pipeline,
        test_mode=split != "train",
    )


train_dataloader = dict(num_workers=1, dataset=clips("train"))
val_dataloader = dict(num_workers=1, dataset=clips("val"))
test_dataloader = dict(num_workers=1, dataset=clips("test"))
val_evaluator = dict(type="AccMetric", metric_options=dict(top_k_accuracy=dict(topk=(1, 2))))
test_evaluator = val_evaluator
