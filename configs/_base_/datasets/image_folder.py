# Images in one folder per class, like ImageNet: data/imagenet/{train,val}/CLASS/IMAGE.
_base_ = "../loaders.py"

data_root = "data/imagenet"
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [
    dict(type="ImageDecode"),
    dict(type="RandomResizedCrop", area_range=(0.08, 1.0)),
    dict(type="Resize", scale=(224, 224), keep_ratio=False),
    *pack,
]
augment = [  # for the data preprocessor
    dict(type="mmvidformer.ClipFlip", p=0.5),
    dict(type="mmvidformer.ClipAutoAugment", policy="original"),
    dict(type="torchvision.transforms.v2.RandomErasing", p=0.25, scale=(0.02, 1 / 3), value=128),
]
val_pipeline = [
    dict(type="ImageDecode"),
    dict(type="Resize", scale=(-1, 256)),
    dict(type="CenterCrop", crop_size=224),
    *pack,
]
test_pipeline = val_pipeline
val_set = dict(
    type="mmvidformer.ImageFolderDataset",
    root=data_root + "/val",
    classes_from=data_root + "/train",
    pipeline=val_pipeline,
    test_mode=True,
)
train_dataloader = dict(
    batch_size=128,  # x 8 processes
    dataset=dict(
        type="mmvidformer.ImageFolderDataset", root=data_root + "/train", pipeline=train_pipeline
    ),
)
val_dataloader = dict(batch_size=128, dataset=val_set)
test_dataloader = dict(batch_size=128, dataset=val_set)
val_evaluator = dict(type="AccMetric")
test_evaluator = val_evaluator
