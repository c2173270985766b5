"""Exported files say what they need: with that alone, plain Python gets the scores of the demo."""

import json
import runpy
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis import Recognizer
from mmvidformer.config import get_config
from mmvidformer.export import export, make_card, make_graph
from tests.export.recognizers import MODEL_LIST, SIZE, TUBES, build, clips, need_onnx
from tests.export.stand_in import stand_in_for_onnx

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_video.py"
ARCH = dict(embed_dims=16, depth=1, num_heads=2)


def read_card(path: Path) -> dict:
    if path.suffix == ".pt2":
        files = {"mmvidformer.json": ""}
        torch.export.load(path, extra_files=files)
        return json.loads(files["mmvidformer.json"])
    import onnxruntime

    metadata = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    return json.loads(metadata["mmvidformer"])


def small(name: str, classes: int = 4) -> Config:
    """A shipped config with a small model; its pipelines are unchanged."""
    cfg = get_config(name)
    cfg.model.backbone.update(arch=ARCH, init_from=None)
    cfg.model.cls_head.update(num_classes=classes, in_channels=16)
    cfg.class_names = ["fall", "jump", "run", "über"][:classes]
    return cfg


def write_video(path: Path, width: int, height: int, frames: int, fps: int) -> None:
    """Write smooth colours that move, so that codecs keep them."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for t in range(frames):
            waves = [np.sin((x * (1 + c) + y * 2 + 5 * t * (c - 1)) / 40 + t / 9) for c in range(3)]
            pixels = np.stack(waves, axis=-1) * 100 + 128
            frame = av.VideoFrame.from_ndarray(pixels.astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.mark.parametrize(
    ("name", "size", "frames", "fps"),
    [
        pytest.param("vivit_fe_k400", (320, 240), 150, 30, id="SampleFrames at a rate, 4 x 3"),
        pytest.param("timesformer_b_k400", (120, 200), 50, 24, id="SpanFrames, 1 x 3, portrait"),
        pytest.param("timesformer_b_sthv2", (320, 240), 41, 12, id="SegmentFrames"),
        pytest.param("videomae_b_k400", (256, 256), 70, 25, id="SampleFrames, square"),
    ],
)
def test_the_example_gets_the_scores_of_the_demo(
    name: str,
    size: tuple[int, int],
    frames: int,
    fps: int,
    main_of,
    tmp_path: Path,
    monkeypatch,
    capsys,
) -> None:
    need_onnx()
    if name != "videomae_b_k400":
        stand_in_for_onnx(monkeypatch)
    monkeypatch.chdir(tmp_path)
    cfg = small(name)
    cfg.dump("config.py")
    write_video(tmp_path / "video.mp4", *size, frames, fps)
    torch.save({"state_dict": build(cfg.model).state_dict()}, "weights.pth")
    expected = Recognizer(cfg, "weights.pth", device="cpu")("video.mp4")

    command = ["config.py", "weights.pth", "--out", "model.onnx", "--pixels", "uint8"]
    assert main_of("export")(command) == 0
    assert "mmvidformer." not in EXAMPLE.read_text()
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "model.onnx", "video.mp4"])
    names = runpy.run_path(str(EXAMPLE))
    probabilities = expected.probabilities["class"]
    assert probabilities.max() - probabilities.min() > 0.02
    np.testing.assert_allclose(names["scores"], probabilities, atol=1e-3)
    label, _ = capsys.readouterr().out.split()
    assert label == expected.top(1)[0][1]


def test_the_example_takes_no_normalized_pixels(tmp_path: Path, monkeypatch) -> None:
    need_onnx()
    stand_in_for_onnx(monkeypatch)
    model = tmp_path / "model.onnx"
    export(make_graph(build(clips("ViViT", stem=TUBES, temporal_depth=1)), SIZE), model)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(model), "video.mp4"])
    with pytest.raises(SystemExit, match="export it with --pixels uint8"):
        runpy.run_path(str(EXAMPLE))


FRAMES = dict(type="mmvidformer.FramesHead", num_classes=5, in_channels=16)
SEGMENTS = dict(type="mmvidformer.SegmentsHead", num_classes=5, in_channels=16, levels=2)
NUMBER = dict(type="mmvidformer.NumberHead", num_classes=5, in_channels=16)
LABELS = dict(type="mmvidformer.MultiLabelHead", num_classes=5, in_channels=16)
PROBABILITIES, VALUES = "mean of probabilities", "mean of values"


@pytest.mark.parametrize(
    ("head", "output", "shape", "activation", "views"),
    [
        (FRAMES, "logits", "(batch, steps, classes)", "softmax", PROBABILITIES),
        (NUMBER, "values", "(batch, classes)", None, VALUES),
        (LABELS, "logits", "(batch, classes)", "sigmoid", PROBABILITIES),
        (
            SEGMENTS,
            "logits",
            "(batch, points, classes + 2): logits, and steps to start and end",
            "sigmoid",
            PROBABILITIES,
        ),
    ],
    ids=["frames", "number", "labels", "segments"],
)
def test_outputs_of_each_task(
    head: dict, output: str, shape: str, activation: str | None, views: str, tmp_path: Path
) -> None:
    cfg = {**clips("VideoTransformer", pool="none", stem=dict(tubelet=(2, 8, 8))), "cls_head": head}
    graph = make_graph(build(cfg), SIZE)
    names = {"class": list("abcde")}
    card = make_card(graph, "mine", [dict(type="Resize", scale=(-1, 16))], names)
    export(graph, tmp_path / "model.pt2", card)
    card = read_card(tmp_path / "model.pt2")
    assert card["outputs"] == {
        output: {"shape": shape, "activation": activation, "views": views, "classes": [*"abcde"]}
    }
    assert card["inputs"]["clip"] == {
        "shape": [None, *SIZE],
        "dtype": "float32",
        "values": "RGB, 0 to 255, then normalize",
    }
    assert card["normalize"] == {
        "by": "you",
        "flip_channels": True,
        "mean": [110.0, 120.0, 130.0],
        "std": [50.0, 60.0, 70.0],
    }
    (resize,) = card["transforms"]
    assert (resize["type"], resize["scale"], resize["keep_ratio"]) == ("Resize", [-1, 16], True)


def test_outputs_of_streams_are_named_by_task() -> None:
    graph = make_graph(build(MODEL_LIST["linear anticipation"]), (3, 8, 8), pixels="uint8")
    names = {"verb": [*"abc"], "noun": [*"defg"], "action": [*"hijklm"]}
    card = make_card(graph, "mine", [], names)
    classes = {output: text["classes"] for output, text in card["outputs"].items()}
    assert classes == names
    assert card["inputs"]["frame"]["values"] == "RGB, 0 to 255"
    assert card["normalize"]["by"] == "the graph"
    assert card["inputs"]["count"] == {"shape": [None], "dtype": "int64"}


def test_classes_of_several_tasks_are_in_the_order_of_the_logits() -> None:
    head = dict(type="mmvidformer.MultiTaskHead", tasks=dict(noun=3, verb=2), in_channels=16)
    model = build({**clips("ViViT", stem=dict(tubelet=(2, 8, 8))), "cls_head": head})
    names = {"noun": ["egg", "door", "cup"], "verb": ["open", "cut"]}
    output = make_card(make_graph(model, SIZE), "mine", [], names)["outputs"]["logits"]
    assert output["classes"] == ["noun: egg", "noun: door", "noun: cup", "verb: open", "verb: cut"]
    assert (output["tasks"], output["views"]) == (dict(noun=3, verb=2), "mean of logits")
    assert output["activation"] == "softmax of each task"
