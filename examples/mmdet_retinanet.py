# MMDetection: RetinaNet with a small ViViT backbone on single frames, 3 classes. For data and
# schedule, add MMDetection's own base configs, for example:
# _base_ = ["mmdet::_base_/datasets/coco_detection.py", "mmdet::_base_/schedules/schedule_1x.py"]
default_scope = "mmdet"
custom_imports = dict(imports=["mmvidformer.registry"], allow_failed_imports=False)
model = dict(
    type="RetinaNet",
    data_preprocessor=dict(type="DetDataPreprocessor", pad_size_divisor=16),
    backbone=dict(
        type="mmaction.mmvidformer.FeatureMaps",
        backbone=dict(
            type="mmvidformer.ViViT",
            arch=dict(embed_dims=64, depth=2, num_heads=4),
            scheme="spacetime",
            img_size=64,
            clip_len=1,
            stem=dict(tubelet=(1, 16, 16)),
        ),
    ),
    neck=dict(
        type="FPN", in_channels=[64], out_channels=32, num_outs=3, add_extra_convs="on_input"
    ),
    bbox_head=dict(
        type="RetinaHead",
        num_classes=3,
        in_channels=32,
        feat_channels=32,
        stacked_convs=1,
        anchor_generator=dict(
            type="AnchorGenerator",
            octave_base_scale=4,
            scales_per_octave=3,
            ratios=[0.5, 1.0, 2.0],
            strides=[16, 32, 64],
        ),
        bbox_coder=dict(type="DeltaXYWHBBoxCoder"),
        loss_cls=dict(type="FocalLoss", use_sigmoid=True),
        loss_bbox=dict(type="L1Loss"),
    ),
    train_cfg=dict(
        assigner=dict(type="MaxIoUAssigner", pos_iou_thr=0.5, neg_iou_thr=0.4, min_pos_iou=0),
        sampler=dict(type="PseudoSampler"),
        allowed_border=-1,
        pos_weight=-1,
    ),
    test_cfg=dict(score_thr=0.05, nms=dict(type="nms", iou_threshold=0.5), max_per_img=100),
)
