# camera_motion on whole frames of any aspect ratio: the short side has 64 pixels, and a frame of
# 16:9 has 14 x 8 tokens in place of 8 x 8. It has no weights yet. Not measured here.
# mmvidformer train camera_motion_whole --procs 2
_base_ = "../camera_motion.py"

test_pipeline = [
    *_base_.test_pipeline[:4],
    dict(type="mmvidformer.CropToMultiple", multiple=8, most=160),
    *_base_.test_pipeline[5:],
]
# Square, 4:3, 16:9 and 16:9 upright; two batches of four are wide. A batch of a process has 64
# clips, and the clips of two processes take turns: batches of 128 have one size.
sizes = [(64, 64), (88, 64), (112, 64), (64, 112)]
speeds = dict(fastest=1.2, beside=1.0)  # also fast pans, and several motions at once
# A step takes 1.7 times as long as one of squares: fewer clips for the same time.
train_dataloader = dict(dataset=dict(clips=800_000, size=sizes, same_size=128, **speeds))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
