# Generated clips of objects that replace one another (python -m lab generate --preset
# cues): all 6 frames of 32 x 32 pixels, as they are. 8 classes.
_base_ = "./motion.py"

data_root = "data/motion_cues"
pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=6, frame_interval=1, num_clips=1, test_mode=True),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(32, 32), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = val_pipeline = test_pipeline = pipeline


def videos(split):
    return dict(
        dataset=dict(
            ann_file=f"{data_root}/{split}.txt",
            data_prefix=dict(video=data_root),
            metainfo=dict(classes=f"{data_root}/classes.txt"),
            pipeline=pipeline,
        )
    )


train_dataloader = videos("train")
val_dataloader = dict(batch_size=50, **videos("val"))
test_dataloader = dict(batch_size=50, **videos("test"))
