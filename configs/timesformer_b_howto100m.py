# TimeSformer-B/16, 8 frames, frame interval 32 (8.5 s), HowTo100M. Paper Table 8: top-1 56.8
# (not measured here). Training starts from a Kinetics-400 model, by default the official one; for
# your own: --cfg-options model.backbone.init_from.source=CHECKPOINT. 32, 64 and 96 frames:
# timesformer/table8.
_base_ = [
    "./_base_/default_runtime.py",
    "./_base_/models/timesformer_b.py",
    "./_base_/datasets/timesformer_howto100m.py",
    "./_base_/schedules/timesformer_15e.py",
]

model = dict(
    backbone=dict(init_from=dict(source="published://timesformer_b_k400")),
    cls_head=dict(num_classes=1059),
    data_preprocessor=dict(augment=_base_.augment),
    test_cfg=dict(max_testing_views=8),  # clips of a video that go through the model at once
)
