# Lists of `mmvidformer data list --task segments`, and features that `mmvidformer features --files
# --every N` saved beside the videos (--out is the folder of the videos).
_base_ = "../loaders.py"

meta_keys = (
    *("num_clips", "frame_inds", "frame_step", "start_index", "total_frames", "avg_fps"),
    *("spans", "background"),
)
pack = dict(type="PackActionInputs", meta_keys=meta_keys)
train_pipeline = [dict(type="mmvidformer.LoadFeatures", rows=2304), pack]
test_pipeline = [dict(type="mmvidformer.LoadFeatures"), pack]
dataset = dict(type="mmvidformer.SpanDataset", overlap=True, suffix=".npz")
train_dataloader = dict(batch_size=2, dataset=dict(**dataset, pipeline=train_pipeline))
val_dataloader = dict(batch_size=1, dataset=dict(**dataset, pipeline=test_pipeline, test_mode=True))
test_dataloader = dict(dataset=dict(**dataset, pipeline=test_pipeline, test_mode=True))
val_evaluator = dict(type="mmvidformer.SegmentsMetric")
test_evaluator = val_evaluator
