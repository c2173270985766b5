# Images in one folder per class, like ImageNet: data/imagenet/{train,val}/CLASS/IMAGE. Augmented as
# by DeiT, three times each in an epoch of a third of the images.
_base_ = "../loaders.py"

data_root = "data/imagenet"
pack = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
train_pipeline = [
    dict(type="ImageDecode"),
    dict(type="RandomResizedCrop", area_range=(0.08, 1.0)),
    dict(type="Resize", scale=(224, 224), keep_ratio=False, interpolation="bicubic"),
    *pack,
]
augment = [  # for the data preprocessor
    dict(type="mmvidformer.ClipFlip", p=0.5),
    dict(type="mmvidformer.ClipAutoAugment", policy="rand-m9-mstd0.5-inc1"),
    dict(type="mmvidformer.ClipErasing", p=0.25, scale=(0.02, 1 / 3), value="random"),
]
blending = dict(  # for the data preprocessor
    type="RandomBatchAugment",
    augments=[
        dict(type="MixupBlending", num_classes=1000, alpha=0.8),
        dict(type="CutmixBlending", num_classes=1000, alpha=1.0),
    ],
    probs=[0.5, 0.5],
)
val_pipeline = [
    dict(type="ImageDecode"),
    dict(type="Resize", scale=(-1, 256), interpolation="bicubic"),
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
    sampler=dict(repeats=3),
    dataset=dict(
        type="mmvidformer.ImageFolderDataset", root=data_root + "/train", pipeline=train_pipeline
    ),
)
val_dataloader = dict(batch_size=128, dataset=val_set)
test_dataloader = dict(batch_size=128, dataset=val_set)
val_evaluator = dict(type="AccMetric")
test_evaluator = val_evaluator
