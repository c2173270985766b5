# An answer after each frame of a camera without a GPU: a causal encoder of 5.7 million parameters
# for 112 x 112 pixels, 16 tokens a frame, which sees the last 8 of them, every fourth of the video.
# mmvidformer finetune --config benchmarks/causal_camera_config.py --data FOLDER --method full
_base_ = ["./camera_config.py"]

sample = dict(type="SampleFrames", clip_len=8, frame_interval=4, num_clips=1)
train_pipeline = [dict(type="mmvidformer.VideoInit"), sample, *_base_.view]
val_pipeline = [dict(type="mmvidformer.VideoInit"), dict(**sample, test_mode=True), *_base_.view]
test_pipeline = val_pipeline
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
model = dict(
    type="mmvidformer.RecurrentRecognizer",
    backbone=dict(
        arch=dict(embed_dims=320, depth=4, num_heads=5),
        stem=dict(tubelet=(1, 28, 28)),
        block=[dict(pattern=dict(type="causal_joint", past=8))],
        clip_len=8,
        positions="none",
        rope="vjepa2",
        cls=None,
        pool="none",
    ),
    cls_head=dict(
        _delete_=True,
        type="mmvidformer.LastStepHead",
        num_classes=174,
        in_channels=320,
        average_clips="prob",
        topk=(1,),
    ),
)
optim_wrapper = dict(optimizer=dict(_delete_=True, type="AdamW", lr=1e-3, weight_decay=0.05))
auto_scale_lr = dict(base_batch_size=8)
