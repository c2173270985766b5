# TimeSformer-B/16, divided space-time attention, 8 frames. All runs of the official code start from
# this ViT, trained on ImageNet-21K and fine-tuned on 1K (jx_vit_base_p16_224-80ecf9dd.pth).
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(
        type="mmvidformer.TimeSformer",
        arch="b",
        scheme="divided_space_time",
        img_size=224,
        clip_len=8,
        drop_path_rate=0.1,
        with_cp="activations",
        init_from=dict(source="timm:vit_base_patch16_224.orig_in21k_ft_in1k"),
    ),
    cls_head=dict(
        type="TimeSformerHead",
        num_classes=400,
        in_channels=768,
        # The official code sums the logits of the views. The paper averages their softmax scores:
        # average_clips="prob" (mmvidformer test --fuse prob).
        average_clips="score",
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[114.75, 114.75, 114.75],  # 0.45 and 0.225, times 255
        std=[57.375, 57.375, 57.375],
        format_shape="NCTHW",
    ),
    test_cfg=dict(max_testing_views=8),
)
