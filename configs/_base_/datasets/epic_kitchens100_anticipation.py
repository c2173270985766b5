# EPIC-Kitchens-100 for anticipation. data_root holds the CSV files of RULSTM
# (github.com/fpv-iplab/rulstm, RULSTM/data/ek100) and frames in the folders of the official
# downloads, P01/rgb_frames/P01_01/frame_0000000001.jpg. 14 frames, 0.25 s apart, before each
# action. The official EPIC_100_train.csv and EPIC_100_validation.csv give the same segments.
_base_ = "../loaders.py"

data_root = "data/epic_kitchens100"
fps = (
    30  # of the frames, as RULSTM extracted them; the official ones have 50 or 60: read the videos
)
# The published BN-Inception weights need exactly 256 x 454 pixels, not 456.
read = [
    dict(type="mmvidformer.ObserveBefore", time_step=0.25, num_steps=14),
    dict(type="RawFrameDecode"),
    dict(type="Resize", scale=(454, 256), keep_ratio=False),
]
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs", meta_keys=("narration_id",)),
]
train_pipeline = test_pipeline = [*read, *pack]
# For the data preprocessor. RandAugment as in Cubuk et al. 2020, which the paper cites; its two
# numbers are not published.
augment = [dict(type="torchvision.transforms.v2.RandAugment", num_ops=2, magnitude=9)]

train_dataloader = dict(
    batch_size=4,  # x 8 processes
    dataset=dict(
        type="mmvidformer.AnticipationDataset",
        ann_file=f"{data_root}/training.csv",
        action_file=f"{data_root}/actions.csv",
        fps=fps,
        data_prefix=dict(img=data_root),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    dataset=dict(
        type="mmvidformer.AnticipationDataset",
        ann_file=f"{data_root}/validation.csv",
        action_file=f"{data_root}/actions.csv",
        fps=fps,
        data_prefix=dict(img=data_root),
        pipeline=test_pipeline,
        test_mode=True,
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(
    type="mmvidformer.AnticipationMetric",
    discarded="wrong",
    subsets=dict(
        unseen=f"{data_root}/validation_unseen_participants_ids.csv",
        tail=dict(
            verb=f"{data_root}/validation_tail_verbs_ids.csv",
            noun=f"{data_root}/validation_tail_nouns_ids.csv",
            action=f"{data_root}/validation_tail_actions_ids.csv",
        ),
    ),
)
test_evaluator = val_evaluator
