# HORST, small, on generated clips of eight objects, one in each frame: the class is the shape of
# the first, which nothing later repeats (docs/claims.md).
# python tools/data/make_motion_dataset.py data/motion_recall --preset recall
# tools/train.py configs/horst_recall_motion.py --cfg-options model.neck.order=1
_base_ = "./horst_early_motion.py"

data_root = "data/motion_recall"
pipeline = _base_.pipeline
pipeline[1].update(frame_interval=1)


def videos(split):
    return dict(
        dataset=dict(
            ann_file=f"{data_root}/{split}.txt",
            data_prefix=dict(video=data_root),
            metainfo=dict(classes=f"{data_root}/classes.txt"),
            pipeline=pipeline,
        )
    )


model = dict(cls_head=dict(num_classes=4))
train_dataloader = dict(batch_size=16, **videos("train"))
val_dataloader = videos("val")
test_dataloader = dict(batch_size=50, **videos("test"))
train_cfg = dict(max_epochs=10, val_interval=2)
param_scheduler = [
    dict(type="CosineAnnealingLR", begin=7.5, end=10, T_max=2.5, convert_to_iter_based=True)
]
