# Early recognition on 41 classes of Something-Something V2: all frames of the first part of each
# video at 24 frames per second, resized to 224 x 224, as in the paper. (The videos have 12, so each
# frame is taken twice.) You must write the lists of these classes, early_train_list_videos.txt and
# early_val_list_videos.txt (docs/horst.md): we know of no source that names the classes.
# The paper has 56769 clips for training and 7503 for validation. Clips differ in length.
_base_ = "../loaders.py"

data_root = "data/sthv2"
observe = dict(type="mmvidformer.ObserveFirst", ratio=0.25, target_fps=24)
train_pipeline = test_pipeline = [
    dict(type="mmvidformer.VideoInit"),
    observe,
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(224, 224), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
# For the data preprocessor. RandAugment as in Cubuk et al. 2020, which the paper cites; its two
# numbers are not published.
augment = [dict(type="torchvision.transforms.v2.RandAugment", num_ops=2, magnitude=9)]

train_dataloader = dict(
    batch_size=1,  # x 8 processes
    dataset=dict(
        type="VideoDataset",
        ann_file=f"{data_root}/early_train_list_videos.txt",
        data_prefix=dict(video=f"{data_root}/videos"),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    dataset=dict(
        type="VideoDataset",
        ann_file=f"{data_root}/early_val_list_videos.txt",
        data_prefix=dict(video=f"{data_root}/videos"),
        pipeline=test_pipeline,
        test_mode=True,
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="AccMetric")
test_evaluator = val_evaluator
