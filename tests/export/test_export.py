"""Exported files give the model's values, for any batch; streams from their first frame on."""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer.config import view_shape
from mmvidformer.export import ExportError, StreamGraph, export, make_graph, write
from mmvidformer.layers import KERNELS, ROPES
from mmvidformer.models import feature_fixation, timesformer, vivit
from mmvidformer.models.horst.layer import VARIANTS
from mmvidformer.models.horst.statt import ATTENTIONS
from mmvidformer.registry import MODELS
from tests.models.tiny import PARTS

ARCH = dict(embed_dims=16, depth=1, num_heads=2)
SIZE = (3, 4, 16, 16)
CLIP = dict(arch=ARCH, img_size=16, clip_len=4)
TUBES = dict(tubelet=(2, 8, 8))
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
        if k != "linear"
    },
    **{f"rope {name}": clips("VideoTransformer", stem=TUBES, rope=name, **PARTS) for name in ROPES},
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
    "attentive pooling": dict(type="AttentiveHead", num_heads=2, depth=1),
}
for _task, _head in TASK_HEADS.items():
    _cfg = clips("ViViT", scheme="factorized_self_attention", stem=TUBES)
    _cfg["backbone"]["pool"] = "none"
    _head = {**_head, "type": f"mmvidformer.{_head['type']}", "num_classes": 5, "in_channels": 16}
    MODEL_LIST[_task] = {**_cfg, "cls_head": _head}


NOT_WITH_2_6 = ("fixation lara", "fixation orthoformer", "unrolling anticipation")


def need_onnx() -> None:
    if torch.__version__ < "2.7":
        pytest.skip("current onnxscript has no opset conversion for PyTorch 2.6")
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)


def check(name: str, cfg: dict, ending: str, folder: Path) -> None:
    if ending == "onnx":
        need_onnx()
    elif torch.__version__ < "2.7" and name in NOT_WITH_2_6:
        pytest.skip("PyTorch 2.6 cannot write a number of tokens that an operation computes")
    size = (3, 8, 8) if "neck" in cfg and "clips" not in name else SIZE
    graph = make_graph(build(cfg), size)
    path = folder / f"model.{ending}"
    assert export(graph, path) < 1e-5
    assert path.is_file()


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        *(("divided_space_time", "onnx"), ("causal", "onnx"), ("stream", "pt2"), ("boxes", "onnx")),
        *(("rope vjepa2", "onnx"), ("attentive pooling", "onnx")),
    ],
)
def test_numbers(name: str, ending: str, tmp_path: Path) -> None:
    check(name, MODEL_LIST[name], ending, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["onnx", "pt2"])
@pytest.mark.parametrize("name", MODEL_LIST)
def test_numbers_of_all_models(name: str, ending: str, tmp_path: Path) -> None:
    check(name, MODEL_LIST[name], ending, tmp_path)


@pytest.mark.parametrize("head", [EARLY, NEXT, dict(NEXT, classifier="unrolling")])
def test_clip_of_a_causal_recognizer_is_the_end_of_its_stream(head: dict) -> None:
    model = build(causal(head))
    anticipates = head is not EARLY
    graph = make_graph(model, SIZE, ahead=2 if anticipates else None)
    clip, states = torch.randn(2, *SIZE), None
    for frame in clip.unbind(2):
        output, states = model.stream(frame, states)
    with torch.no_grad():
        found = dict(zip(graph.output_names, graph(clip), strict=True))
        expected = model.cls_head(output, **({"ahead": [2]} if anticipates else {}))
    expected = {t: x[:, -1] for t, x in expected.items()} if anticipates else {"logits": expected}
    torch.testing.assert_close(found, expected)


def test_wrong_sizes_and_times_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Horst .* got NoneType; give the size \(3, T, H, W\)"):
        make_graph(build(causal(EARLY)), (3, 16, 16))
    with pytest.raises(ValueError, match="ahead needs AnticipationHead, got LastStepHead"):
        make_graph(build(stream(EARLY)), (3, 8, 8), ahead=2)


def test_pixels_are_normalized_as_the_preprocessor_does() -> None:
    model = build(clips("ViViT", stem=TUBES, temporal_depth=1))
    pixels = torch.randint(0, 256, (2, *SIZE), dtype=torch.uint8)
    data = model.data_preprocessor({"inputs": list(pixels), "data_samples": None})
    with torch.no_grad():
        expected = model.cls_head(model.backbone(data["inputs"]))
        for kind in ("uint8", "float32"):
            graph = make_graph(model, SIZE, pixels=kind)
            (found,) = graph(pixels.to(graph.dtype))
            torch.testing.assert_close(found, expected)
    with pytest.raises(KeyError, match="int8"):
        make_graph(model, SIZE, pixels="int8")


@pytest.mark.parametrize("head", [EARLY, NEXT, dict(NEXT, classifier="unrolling")])
def test_stream_graph_is_the_recognizers_stream(head: dict) -> None:
    model = build(stream(head, order=3))
    graph = make_graph(model, (3, 8, 8), ahead=2 if head is not EARLY else None)
    assert isinstance(graph, StreamGraph)
    frames = torch.randn(5, 2, 3, 8, 8)
    state, states = graph.start(2), None
    options = {} if head is EARLY else {"ahead": [2]}
    with torch.no_grad():
        for frame in frames:
            *logits, count, key, value, gate = graph(frame, *state)
            state = (count, key, value, gate)
            output, states = model.stream(frame, states)
            expected = model.cls_head(output, **options)
            expected = [expected] if head is EARLY else [expected[t][:, 0] for t in TASKS]
            torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    assert count.tolist() == [5, 5]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_count_of_zero_restarts_one_clip(variant: str, attention: str) -> None:
    model = build(stream(EARLY, order=3, variant=variant, attention=attention))
    graph = make_graph(model, (3, 8, 8))
    frames = torch.randn(6, 2, 3, 8, 8)
    state = (torch.zeros(2, dtype=torch.long), *(x + 100 for x in graph.start(2)[1:]))
    with torch.no_grad():
        for t, frame in enumerate(frames):
            if t == 2:
                state[0][1] = 0
            logits, *state = graph(frame, *state)
        for i, clip in enumerate((frames[:, :1], frames[2:, 1:])):
            features = model.extract_feat(clip.transpose(0, 1))[0]
            expected = model.cls_head(features)[0]
            torch.testing.assert_close(logits[i], expected, atol=1e-5, rtol=1e-5)


def test_file_that_computes_something_else_is_deleted(monkeypatch, tmp_path: Path) -> None:
    load = write._load_pt2

    def wrong(out: Path):
        run = load(out)
        return lambda inputs: [value + 1e-3 for value in run(inputs)]

    monkeypatch.setitem(write.WRITERS, ".pt2", (write._write_pt2, wrong, ()))
    graph = make_graph(
        build(clips("ViViT", stem=dict(tubelet=(4, 16, 16)), temporal_depth=0)), SIZE
    )
    with pytest.raises(ExportError, match="deleted"):
        export(graph, tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=".onnx or .pt2"):
        export(graph, tmp_path / "model.pth")


def test_missing_packages_are_named_before_the_export(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    graph = make_graph(
        build(clips("ViViT", stem=dict(tubelet=(4, 16, 16)), temporal_depth=0)), SIZE
    )
    monkeypatch.setattr(torch.export, "export", lambda *args, **kwargs: pytest.fail("exported"))
    with pytest.raises(ImportError, match="needs onnx: pip install onnx$"):
        export(graph, tmp_path / "model.onnx")


def test_size_of_a_frame_comes_from_the_pipeline() -> None:
    def shape(*steps: dict) -> tuple[int, ...]:
        model = {"type": "RecurrentRecognizer", "cls_head": {"horizon": 14}, "backbone": {}}
        return view_shape(
            Config({"model": model, "test_dataloader": {"dataset": {"pipeline": list(steps)}}})
        )

    resize = dict(type="Resize", scale=(454, 256), keep_ratio=False)
    assert shape(resize) == (3, 14, 256, 454)
    assert shape(resize, dict(type="CenterCrop", crop_size=224)) == (3, 14, 224, 224)
    with pytest.raises(ValueError, match="size of a frame"):
        shape(dict(type="Resize", scale=(-1, 256)))


def test_tool_writes_and_reports(tmp_path: Path, capsys) -> None:
    import importlib.util

    need_onnx()
    import onnxruntime

    path = Path(__file__).parents[2] / "tools" / "export.py"
    spec = importlib.util.spec_from_file_location("tool_export", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    cfg = clips("ViViT", stem=dict(tubelet=(4, 8, 8)), temporal_depth=0)
    config, weights, out = (tmp_path / name for name in ("c.py", "w.pth", "o/model.onnx"))
    Config(dict(model=cfg)).dump(config)
    model = build(cfg)
    torch.save({"state_dict": model.state_dict()}, weights)
    assert tool.main([str(config), str(weights), "--out", str(out), "--pixels", "uint8"]) == 0
    printed = capsys.readouterr().out
    assert json.dumps({"clip": ["batch", *SIZE]}) in printed
    pixels = torch.randint(0, 256, (3, *SIZE), dtype=torch.uint8)
    session = onnxruntime.InferenceSession(out)
    found = session.run(["logits"], {"clip": pixels.numpy()})[0]
    data = model.data_preprocessor({"inputs": list(pixels), "data_samples": None})
    with torch.no_grad():
        expected = model.cls_head(model.backbone(data["inputs"]))
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
