# TimeSformer, small, trained from scratch on the plain motion dataset, for the ablation in
# docs/timesformer.md.
# python tools/data/make_motion_dataset.py data/motion_plain --preset plain
# tools/dist_train.sh configs/timesformer_motion.py 2 --cfg-options model.backbone.attention=axial
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/datasets/motion_plain.py",
    "./_base_/schedules/motion_20e.py",
]

model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.TimeSformer",
        arch=dict(embed_dims=96, depth=4, num_heads=4),
        attention="divided_space_time",
        positions="space_time",
        img_size=64,
        clip_len=4,
        drop_path_rate=0.0,
    ),
    cls_head=dict(
        type="TimeSformerHead", num_classes=4, in_channels=96, average_clips="score", topk=(1, 2)
    ),
    data_preprocessor=_base_.preprocessor,
)
