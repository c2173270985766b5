# An image model for the small models of reports/claims.md: the shape of an object in a frame.
# python -m lab generate data/motion_images --preset images
# mmvidformer train timesformer_image_motion
_base_ = "./timesformer_motion.py"

data_root = "data/motion_images"
pipeline = _base_.pipeline
pipeline[1].update(clip_len=1)
train_pipeline = val_pipeline = test_pipeline = pipeline


def images(split):
    return dict(
        dataset=dict(
            ann_file=f"{data_root}/{split}.txt",
            data_prefix=dict(video=data_root),
            metainfo=dict(classes=f"{data_root}/classes.txt"),
            pipeline=pipeline,
        )
    )


model = dict(
    backbone=dict(scheme="space_only", clip_len=1),
    cls_head=dict(num_classes=4),
)
train_dataloader = dict(batch_size=64, **images("train"))
val_dataloader = images("val")
test_dataloader = images("test")
optim_wrapper = dict(optimizer=dict(lr=1e-3))
auto_scale_lr = dict(base_batch_size=64)
