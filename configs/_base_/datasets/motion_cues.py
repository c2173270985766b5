# Generated clips of objects that replace one another (tools/data/make_motion_dataset.py --preset
# cues): all 6 frames of 32 x 32 pixels, as they are. 8 classes.
_base_ = "../loaders.py"

data_root = "data/motion_cues"
preprocessor = dict(
    type="mmvidformer.VideoDataPreprocessor",
    mean=[127.5, 127.5, 127.5],
    std=[127.5, 127.5, 127.5],
    format_shape="NCTHW",
)
pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=6, frame_interval=1, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(32, 32), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = val_pipeline = test_pipeline = pipeline


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
val_dataloader = dict(batch_size=50, num_workers=1, dataset=clips("val"))
test_dataloader = dict(batch_size=50, num_workers=1, dataset=clips("test"))
val_evaluator = dict(type="AccMetric", metric_options=dict(top_k_accuracy=dict(topk=(1, 2))))
test_evaluator = val_evaluator
