# HORST, small, on generated clips of twelve objects, one in each frame: the class is the shape of
# the first, which nothing later repeats (reports/claims.md).
# mmvidformer data generate data/motion_recall --preset recall
# mmvidformer train horst_recall_motion --cfg-options model.neck.order=1
_base_ = "./horst_cues_motion.py"

data_root = "data/motion_recall"


def videos(split):
    return dict(
        dataset=dict(
            ann_file=f"{data_root}/{split}.txt",
            data_prefix=dict(video=data_root),
            metainfo=dict(classes=f"{data_root}/classes.txt"),
        )
    )


model = dict(cls_head=dict(num_classes=3))
train_dataloader = videos("train")
val_dataloader = videos("val")
test_dataloader = videos("test")
