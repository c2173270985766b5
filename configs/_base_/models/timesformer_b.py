# TimeSformer-B/16, divided space-time attention, 8 frames, initialized from an ImageNet-21K ViT.
model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.TimeSformer",
        arch="b",
        attention="divided_space_time",
        img_size=224,
        clip_len=8,
        drop_path_rate=0.1,
        init_from=dict(source="timm:vit_base_patch16_224.augreg_in21k"),
    ),
    cls_head=dict(
        type="TimeSformerHead",
        num_classes=400,
        in_channels=768,
        # The paper averages the softmax scores of the views. The official code sums their
        # logits: average_clips="score" (tools/test.py --fuse score).
        average_clips="prob",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[114.75, 114.75, 114.75],  # 0.45 and 0.225, times 255
        std=[57.375, 57.375, 57.375],
        format_shape="NCTHW",
    ),
)
