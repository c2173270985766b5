# Spans of videos, and features that were saved or published beside them. In training, rows that
# show a segment, and 90 to 100% of those of a shorter video, as ActionFormer takes them.
_base_ = "../loaders.py"

meta_keys = (
    *("num_clips", "frame_inds", "frame_step", "start_index", "total_frames", "avg_fps"),
    *("spans", "background"),
)
pack = dict(type="PackActionInputs", meta_keys=meta_keys)
load = dict(type="mmvidformer.LoadFeatures")
train_pipeline = [dict(**load, rows=2304, least=0.9), pack]
test_pipeline = [load, pack]
dataset = dict(type="mmvidformer.SpanDataset", overlap=True, suffix=".npz")
train_dataloader = dict(batch_size=2, dataset=dict(**dataset, pipeline=train_pipeline))
val_dataloader = dict(batch_size=1, dataset=dict(**dataset, pipeline=test_pipeline, test_mode=True))
test_dataloader = dict(dataset=dict(**dataset, pipeline=test_pipeline, test_mode=True))
val_evaluator = dict(type="mmvidformer.SegmentsMetric")
test_evaluator = val_evaluator
