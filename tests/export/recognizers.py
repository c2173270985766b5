"""Small recognizers of all kinds."""

import copy

import pytest
import torch
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer.layers import KERNELS, ROPES
from mmvidformer.models import feature_fixation, timesformer, vivit
from mmvidformer.registry import MODELS
from tests.models.tiny import PARTS

ARCH = dict(embed_dims=16, depth=1, num_heads=2)
SIZE = (3, 4, 16, 16)
CLIP = dict(arch=ARCH, img_size=16, clip_len=4)
TUBES = dict(tubelet=(2, 8, 8))
ROPE = dict(stem=TUBES, arch={**ARCH, "num_heads": 1})  # wide enough for all axes
TASKS = dict(verb=3, noun=4, action=6)
PREPROCESSOR = dict(
    type="ActionDataPreprocessor",
    mean=[110.0, 120.0, 130.0],
    std=[50.0, 60.0, 70.0],
    to_rgb=True,
    format_shape="NCTHW",
)


def clips(name: str, **options: object) -> dict:
    head = dict(type="TimeSformerHead", num_classes=5, in_channels=16)
    if name == "FeatureFixationTransformer":
        head = dict(type="mmvidformer.TokenMlpHead", num_classes=5, in_channels=16)
    return dict(
        type="Recognizer3D",
        backbone=dict(type=f"mmvidformer.{name}", **{**CLIP, **options}),
        cls_head=head,
        data_preprocessor=PREPROCESSOR,
    )


def stream(head: dict, order: int = 2, **neck: object) -> dict:
    return dict(
        type="mmvidformer.RecurrentRecognizer",
        backbone=dict(type="mmvidformer.ConvStem", channels=4),
        neck=dict(type="mmvidformer.Horst", in_channels=4, channels=[4], order=order, **neck),
        cls_head=head,
        data_preprocessor=PREPROCESSOR,
    )


def causal(head: dict) -> dict:
    """A recognizer without a neck."""
    backbone = dict(
        type="mmvidformer.VideoTransformer",
        arch=dict(embed_dims=4, depth=1, num_heads=1),
        img_size=16,
        clip_len=4,
        stem=dict(tubelet=(1, 8, 8)),
        block=[dict(pattern=dict(type="causal_time", past=2)), dict(pattern="space")],
        pool="none",
    )
    return {k: v for k, v in {**stream(head), "backbone": backbone}.items() if k != "neck"}


EARLY = dict(type="mmvidformer.LastStepHead", num_classes=3, in_channels=4)
NEXT = dict(type="mmvidformer.AnticipationHead", tasks=TASKS, in_channels=4)


def need_onnx() -> None:
    """Skip a test where a package for ONNX is missing or too old."""
    if torch.__version__ < "2.7":
        pytest.skip("current onnxscript has no opset conversion for PyTorch 2.6")
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)


def build(cfg: dict) -> nn.Module:
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(copy.deepcopy(cfg)).eval()
    for parameter in model.parameters():  # many start at zero
        nn.init.normal_(parameter, std=0.2)
    return model


MODEL_LIST = {
    **{
        s: clips("TimeSformer", scheme=s, stem=dict(tubelet=(1, 8, 8))) for s in timesformer.SCHEMES
    },
    **{s: clips("ViViT", scheme=s, stem=TUBES) for s in vivit.SCHEMES},
    **{
        f"fixation {s}": clips("FeatureFixationTransformer", scheme=s)
        for s in feature_fixation.SCHEMES
    },
    **{
        f"fixation {k}": clips("FeatureFixationTransformer", kernel=k)
        for k in KERNELS
        if k not in ("linear", "recurrence")  # the latter is causal
    },
    **{f"rope {name}": clips("VideoTransformer", rope=name, **ROPE, **PARTS) for name in ROPES},
    "camera motion": {
        **clips("VideoTransformer", pool="none", stem=dict(tubelet=(4, 8, 8))),
        "cls_head": dict(type="mmvidformer.CameraMotionHead", in_channels=16),
    },
    "causal": causal(EARLY),
    "causal, linear anticipation": causal(NEXT),
    "causal, unrolling anticipation": causal(dict(NEXT, classifier="unrolling")),
    "clips of HORST": stream(EARLY),
    "clips of the running mean": {
        **stream(EARLY),
        "neck": dict(type="benchmarks.running_mean.RunningMean", in_channels=4, channels=[4]),
    },
    "stream": stream(EARLY),
    "linear anticipation": stream(NEXT),
    "unrolling anticipation": stream(dict(NEXT, classifier="unrolling")),
    "paper's stream": stream(EARLY, variant="paper", attention="joint"),
}


TASK_HEADS = {
    "labels": dict(type="MultiLabelHead"),
    "number": dict(type="NumberHead", mean=3.0, std=2.0),
    "frames": dict(type="FramesHead"),
    "segments": dict(type="SegmentsHead", hidden_dim=8, levels=2),
    "boxes": dict(type="BoxesHead", roi_size=3),
    "moments": dict(type="MomentsHead", hidden_dim=8),
    "attentive pooling": dict(type="AttentiveHead", num_heads=2, depth=1),
}
for _task, _head in TASK_HEADS.items():
    _cfg = clips("ViViT", scheme="factorized_self_attention", stem=TUBES)
    _cfg["backbone"]["pool"] = "none"
    _head = {**_head, "type": f"mmvidformer.{_head['type']}", "num_classes": 5, "in_channels": 16}
    MODEL_LIST[_task] = {**_cfg, "cls_head": _head}
