# THUMOS-14: segments from the I3D features that ActionFormer and TriDet publish: 2048 numbers for
# every 4 frames, of windows of 16. Training takes its validation videos, as is usual. Values are
# those of ActionFormer's configuration (61ea7eb), but not its network. Not measured here.
# Unpack the features, so that there are data/thumos14/thumos14.json and data/thumos14/i3d_features.
# mmvidformer train features_thumos14
_base_ = [
    "../_base_/default_runtime.py",
    "../_base_/models/segments_features.py",
    "../_base_/datasets/segment_features.py",
    "../_base_/schedules/segments_35e.py",
]

root = "data/thumos14"
classes = [
    *("BaseballPitch", "BasketballDunk", "Billiards", "CleanAndJerk", "CliffDiving"),
    *("CricketBowling", "CricketShot", "Diving", "FrisbeeCatch", "GolfSwing", "HammerThrow"),
    *("HighJump", "JavelinThrow", "LongJump", "PoleVault", "Shotput", "SoccerPenalty"),
    *("TennisSwing", "ThrowDiscus", "VolleyballSpiking"),
]
annotations = f"{root}/thumos14.json"
data = dict(ann_file=annotations, suffix=".npy", metainfo=dict(classes=classes))
data |= dict(data_prefix=dict(video=f"{root}/i3d_features"))
load = dict(type="mmvidformer.LoadFeatures", facts=annotations, every=4, span=16)
model = dict(cls_head=dict(num_classes=20, in_channels=2048, score_thr=0.001))
train_dataloader = dict(
    dataset=dict(
        **data, subset="Validation", pipeline=[dict(**load, rows=2304, least=0.9), _base_.pack]
    )
)
val_dataloader = dict(dataset=dict(**data, subset="Test", pipeline=[load, _base_.pack]))
test_dataloader = dict(dataset=val_dataloader["dataset"])
