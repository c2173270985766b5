# vivit_fe_motion with the multi-task head: verb (motion) and noun (shape) from the EPIC-style CSV
# files of the motion dataset.
# mmvidformer train vivit_fe_verb_noun_motion --procs 2
_base_ = "./vivit_fe_motion.py"

head = dict(type="mmvidformer.MultiTaskHead", tasks=dict(noun=4, verb=4), in_channels=96)
model = dict(cls_head=dict(_delete_=True, **head, topk=(1, 2)))


def epic(split):
    return dict(
        type="mmvidformer.EpicKitchensDataset",
        ann_file=f"data/motion/{split}.csv",
        data_prefix=dict(video="data/motion"),
        name=split + "/{video_id}.mp4",
        num_classes=(4, 4),
    )


train_dataloader = dict(dataset=epic("train"))
val_dataloader = dict(dataset=epic("val"))
test_dataloader = dict(dataset=epic("test"))
val_evaluator = dict(_delete_=True, type="mmvidformer.MultiTaskAccuracy", topk=(1, 2))
test_evaluator = val_evaluator
train_cfg = dict(max_epochs=80, val_interval=8)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.01, end=3, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=3, end=80, T_max=77, convert_to_iter_based=True),
]
default_hooks = dict(checkpoint=dict(save_best="action/top1"))
