# timesformer_b_k400 as the official code runs it: frames spread over the whole span (an interval of
# 36.4 for 8 x 32) at 30 frames per second, a single test clip from the start, summed logits, batch
# size 64 at the same learning rate. Official zoo: top-1 77.9 (not measured here).
_base_ = "./timesformer_b_k400.py"

model = dict(cls_head=dict(average_clips="score"))
sample = dict(type="mmvidformer.SpanFrames", clip_len=8, frame_interval=32)
train_pipeline = _base_.train_pipeline
val_pipeline = _base_.val_pipeline
test_pipeline = _base_.test_pipeline
train_pipeline[1] = sample
val_pipeline[1] = test_pipeline[1] = dict(**sample, test_mode=True)
train_dataloader = dict(batch_size=8, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
auto_scale_lr = dict(base_batch_size=64)
