# The causal transformer with one class for a clip, from its last frame. Convolutions before the
# patches see what moves by two pixels; patches of 8 x 8 pixels alone do not easily.
_base_ = "./causal_transformer.py"

model = dict(
    backbone=dict(stem=dict(tubelet=(1, 2, 2), convs=(16, 32))),
    cls_head=dict(
        type="mmvidformer.LastStepHead", in_channels=64, average_clips="score", topk=(1, 2)
    ),
)
