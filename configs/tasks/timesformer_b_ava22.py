# AVA 2.2: the classes of persons' boxes. TimeSformer-B, 8 frames at interval 8 around the moment,
# from Kinetics-400, with TimeSformer's schedule; files as MMAction2 prepares them, boxes of its
# detector for testing. Not measured here.
# mmvidformer train timesformer_b_ava22 --procs 8
_base_ = "../timesformer_b_k400.py"

root = "data/ava/annotations"
labels = f"{root}/ava_action_list_v2.2_for_activitynet_2019.pbtxt"
sample = dict(type="SampleAVAFrames", clip_len=8, frame_interval=8)
pack = [
    dict(type="RawFrameDecode"),
    dict(type="Resize", scale=(224, 224), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
data = dict(_delete_=True, type="AVADataset", label_file=labels)
data |= dict(data_prefix=dict(img="data/ava/rawframes"))
proposals = f"{root}/ava_dense_proposals_val.FAIR.recall_93.9.pkl"
model = dict(
    backbone=dict(pool="none"),
    cls_head=dict(_delete_=True, type="mmvidformer.BoxesHead", num_classes=80, in_channels=768),
    data_preprocessor=dict(augment=[]),  # it would not flip the boxes
)
train_dataloader = dict(
    dataset=dict(
        **data,
        ann_file=f"{root}/ava_train_v2.2.csv",
        exclude_file=f"{root}/ava_train_excluded_timestamps_v2.2.csv",
        pipeline=[sample, *pack[:2], dict(type="Flip", flip_ratio=0.5), *pack[2:]],
    )
)
val_dataloader = dict(
    dataset=dict(
        **data,
        ann_file=f"{root}/ava_val_v2.2.csv",
        exclude_file=f"{root}/ava_val_excluded_timestamps_v2.2.csv",
        proposal_file=proposals,
        pipeline=[dict(**sample, test_mode=True), *pack],
        test_mode=True,
    )
)
test_dataloader = dict(dataset=val_dataloader["dataset"])
val_evaluator = dict(
    _delete_=True,
    type="mmvidformer.BoxesMetric",
    ann_file=f"{root}/ava_val_v2.2.csv",
    exclude_file=f"{root}/ava_val_excluded_timestamps_v2.2.csv",
    label_file=labels,
)
test_evaluator = val_evaluator
load_from = "published://timesformer_b_k400"
