# LeVJEPA-L/16, frozen, and a linear classifier of its class token, which reads all frames so far.
# The encoder was trained on 16 frames. In a stream it sees the last 16, and places in time count
# from the start, so longer streams should start again (demo --restart).
model = dict(
    type="mmvidformer.RecurrentRecognizer",
    backbone=dict(
        type="mmvidformer.VideoTransformer",
        arch="l",
        clip_len=16,
        img_size=224,
        stem=dict(tubelet=(1, 16, 16)),
        block=[dict(pattern=dict(type="causal_joint", past=16))],
        positions="none",
        rope="vjepa2",
        cls="sink",
        frozen_stages=24,
        init_from="published://levjepa_l",
    ),
    cls_head=dict(
        type="mmvidformer.LastStepHead", num_classes=174, in_channels=1024, average_clips="prob"
    ),
    data_preprocessor=dict(
        type="mmvidformer.VideoDataPreprocessor",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        format_shape="NCTHW",
    ),
)
