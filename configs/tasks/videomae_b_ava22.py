# AVA 2.2: the classes of persons' boxes. VideoMAE-B, 16 frames at interval 4, from Kinetics-400, by
# MMAction2's recipe for AVA-Kinetics, on AVA alone, and on annotated boxes alone, as the official
# code. MMAction2 has dropout before the pooling of a region. Files as it prepares them. Official
# zoo, by another recipe: mAP 26.7 from pretraining, 31.8 with labels. Not measured here.
# mmvidformer train videomae_b_ava22 --procs 8
_base_ = "./timesformer_b_ava22.py"

sample = dict(type="SampleAVAFrames", clip_len=16, frame_interval=4)
pack = [dict(type="FormatShape", input_format="NCTHW"), dict(type="PackActionInputs")]
model = dict(
    backbone=dict(
        _delete_=True,
        type="mmvidformer.VideoTransformer",
        arch="b",
        clip_len=16,
        img_size=224,
        stem=dict(tubelet=(2, 16, 16)),
        positions=dict(type="joint", fixed="flat", rule="bicubic"),
        qkv_bias="qv",
        pool="none",
        drop_path_rate=0.2,
        with_cp="activations",
    ),
    cls_head=dict(roi_size=8, dropout_ratio=0.5),
    data_preprocessor=dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375]),
)
train_pipeline = [
    sample,
    dict(type="RawFrameDecode"),
    dict(type="RandomRescale", scale_range=(256, 320)),
    dict(type="RandomCrop", size=256),
    dict(type="Flip", flip_ratio=0.5),
    *pack,
]
val_pipeline = [
    dict(**sample, test_mode=True),
    dict(type="RawFrameDecode"),
    dict(type="Resize", scale=(-1, 256)),
    *pack,
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=1, dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=val_dataloader["dataset"])
train_cfg = dict(max_epochs=20)
optim_wrapper = dict(
    _delete_=True,
    constructor="mmvidformer.LayerDecayOptimWrapperConstructor",
    optimizer=dict(type="AdamW", lr=1.25e-4, weight_decay=0.05),
    paramwise_cfg=dict(layer_decay=0.75, norm_decay_mult=0.0, bias_decay_mult=0.0),
    clip_grad=dict(max_norm=40, norm_type=2),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.1, end=5, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=5, end=20, T_max=15, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=64)
load_from = "published://videomae_b_k400"
