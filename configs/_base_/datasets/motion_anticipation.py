# Generated videos of scripted actions (python -m lab generate --preset sequences) for
# anticipation: 14 frames of 32 x 32 pixels, 0.25 s apart, before each action. 4 verbs, 4 nouns, 16
# actions.
_base_ = "../loaders.py"

data_root = "data/motion_sequences"
pipeline = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="mmvidformer.ObserveBefore", time_step=0.25, num_steps=14),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(32, 32), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs", meta_keys=("narration_id",)),
]


def segments(split):
    return dict(
        type="mmvidformer.AnticipationDataset",
        ann_file=f"{data_root}/{split}.csv",
        action_file=f"{data_root}/actions.csv",
        data_prefix=dict(video=f"{data_root}/{split}"),
        name="{video_id}.mp4",
        pipeline=pipeline,
        test_mode=split != "train",
    )


train_dataloader = dict(num_workers=1, dataset=segments("train"))
val_dataloader = dict(num_workers=1, dataset=segments("val"))
test_dataloader = dict(num_workers=1, dataset=segments("test"))
# With only four verbs, top-5 recall would always be 1.
val_evaluator = dict(type="mmvidformer.AnticipationMetric", recall_k=1)
test_evaluator = val_evaluator
