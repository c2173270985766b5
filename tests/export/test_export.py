"""Exported files give the model's values, for any batch; streams from their first frame on."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis import Recognizer
from mmvidformer.config import view_shape
from mmvidformer.export import export, make_graph, write
from tests.export.recognizers import (
    EARLY,
    MODEL_LIST,
    SIZE,
    TUBES,
    build,
    clips,
    need_onnx,
    stream,
)
from tests.export.stand_in import stand_in_for_onnx
from tests.full_disk import error_of

NOT_WITH_2_6 = ("fixation lara", "fixation orthoformer", "unrolling anticipation")


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
        ("rope vjepa2", "onnx"),
    ],
)
def test_numbers(name: str, ending: str, tmp_path: Path) -> None:
    check(name, MODEL_LIST[name], ending, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["onnx", "pt2"])
@pytest.mark.parametrize("name", MODEL_LIST)
def test_numbers_of_all_models(name: str, ending: str, tmp_path: Path) -> None:
    check(name, MODEL_LIST[name], ending, tmp_path)


def test_all_tubelets_are_exported(tmp_path: Path) -> None:
    """Which of them stand still depends on the clip; the model stays as it is."""
    joint = clips("ViViT", scheme="spacetime", stem=TUBES)
    joint["backbone"]["static"] = 0.1
    model = build(joint)
    assert export(make_graph(model, SIZE), tmp_path / "model.pt2") < 1e-5
    assert model.backbone.static == 0.1


def test_wrong_sizes_and_times_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"neck Horst, .* got Recognizer3D .*; give the size \(3, T, H, W\)"
    ):
        make_graph(build(clips("ViViT", stem=TUBES)), (3, 16, 16))
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


def fails(*args: object) -> None:
    raise RuntimeError("no such operator")


SMALL = clips("ViViT", stem=dict(tubelet=(4, 16, 16)), temporal_depth=0)
FAULTS = {
    "another value": (lambda run: lambda inputs: [x + 1e-3 for x in run(inputs)], "would differ"),
    "not a number": (lambda run: lambda inputs: [x * torch.nan for x in run(inputs)], "differ"),
    "an error when it runs": (lambda run: fails, "no such operator"),
    "an error when it is loaded": (fails, "no such operator"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_fails_is_not_written(fault: str, monkeypatch, tmp_path: Path) -> None:
    stand_in_for_onnx(monkeypatch)
    change, message = FAULTS[fault]
    write_card, load, _ = write.WRITERS[".onnx"]
    out = tmp_path / "model.pt2"  # which PyTorch 2.6 writes, too
    writer = (write_card, lambda path: change(load(path)), ())
    monkeypatch.setitem(write.WRITERS, ".pt2", writer)
    graph = make_graph(build(SMALL), SIZE)
    with pytest.raises(RuntimeError, match=message):
        export(graph, out)
    assert not [*tmp_path.iterdir()]
    out.write_text("of an export before")
    with pytest.raises(RuntimeError, match=message):
        export(graph, out)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["of an export before"]
    with pytest.raises(ValueError, match=".onnx or .pt2"):
        export(graph, tmp_path / "model.pth")


@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_a_full_disk_ends_no_process(ending: str, tmp_path: Path) -> None:
    """That of PyTorch's writer of .pt2 did."""
    if ending == "onnx":
        need_onnx()
    graph, out = make_graph(build(SMALL), SIZE), tmp_path / f"model.{ending}"
    out.write_text("of an export before")
    error = error_of(lambda: export(graph, out))
    assert error == f"CannotWrite: [Errno 27] File too large: '{tmp_path}'"
    assert [path.read_text() for path in tmp_path.iterdir()] == ["of an export before"]


def test_the_model_stays_as_it_is(tmp_path: Path) -> None:
    """In training mode, for example; the graph is without dropout."""
    cfg = clips("ViViT", stem=TUBES, temporal_depth=1, drop_rate=0.5)
    model = build(cfg).train()
    model.backbone.embed.eval()
    before = {name: part.training for name, part in model.named_modules()}
    graph = make_graph(model, SIZE)
    assert export(graph, tmp_path / "model.pt2") < 1e-5
    assert {name: part.training for name, part in model.named_modules()} == before
    (clip,) = graph.inputs(1)[0]
    with torch.no_grad():
        expected = model.eval().cls_head(model.backbone(clip))
    torch.testing.assert_close(graph(clip)[0], expected)


@pytest.mark.parametrize("pixels", [None, "uint8"])
@pytest.mark.parametrize("name", ["divided_space_time", "boxes", "causal", "stream"])
def test_inputs_are_on_the_device_of_the_model(name: str, pixels: str | None) -> None:
    """A device other than the CPU, on which only shapes are computed."""
    size = (3, 8, 8) if name == "stream" else SIZE
    graph = make_graph(build(MODEL_LIST[name]).to("meta"), size, pixels)
    for inputs in graph.inputs(2, calls=2):
        assert {value.device.type for value in inputs} == {"meta"}
        assert {value.device.type for value in graph(*inputs)} == {"meta"}


def test_missing_packages_are_named_before_the_export(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    graph = make_graph(build(SMALL), SIZE)
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


def test_tool_takes_the_weights_that_demo_takes(main_of, tmp_path: Path) -> None:
    """By default the published ones, such as those in the package; never initial ones."""
    out = tmp_path / "model.pt2"
    assert main_of("export")(["camera_motion", "--out", str(out)]) == 0
    model = Recognizer("camera_motion", device="cpu").model
    clip = torch.randn(2, 3, 8, 64, 64)
    with torch.no_grad():
        expected, expected_rates = model.cls_head.measure(model.backbone(clip))
        found, rates = torch.export.load(out).module()(clip)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(rates, expected_rates, atol=1e-4, rtol=1e-4)
    files = {"mmvidformer.json": ""}
    torch.export.load(out, extra_files=files)
    outputs = json.loads(files["mmvidformer.json"])["outputs"]
    assert outputs["logits"]["classes"][1] == "pan left"
    assert outputs["rates"]["classes"] == ["pan", "tilt", "zoom", "roll", "shake"]
    assert outputs["rates"]["units"][3] == "degrees/s"
    with pytest.raises(KeyError, match="no published checkpoint named 'vivit_fe_motion'"):
        main_of("export")(["vivit_fe_motion", "--out", str(tmp_path / "other.pt2")])
    assert [*tmp_path.iterdir()] == [out]


def test_tool_writes_and_reports(main_of, tmp_path: Path, capsys) -> None:
    need_onnx()
    import onnxruntime

    cfg = clips("ViViT", stem=dict(tubelet=(4, 8, 8)), temporal_depth=0)
    config, weights, out = (tmp_path / name for name in ("c.py", "w.pth", "o/model.onnx"))
    Config(dict(model=cfg)).dump(config)
    model = build(cfg)
    torch.save({"state_dict": model.state_dict()}, weights)
    assert (
        main_of("export")([str(config), str(weights), "--out", str(out), "--pixels", "uint8"]) == 0
    )
    printed = capsys.readouterr().out
    assert json.dumps({"clip": ["batch", *SIZE]}) in printed
    pixels = torch.randint(0, 256, (3, *SIZE), dtype=torch.uint8)
    session = onnxruntime.InferenceSession(out)
    found = session.run(["logits"], {"clip": pixels.numpy()})[0]
    data = model.data_preprocessor({"inputs": list(pixels), "data_samples": None})
    with torch.no_grad():
        expected = model.cls_head(model.backbone(data["inputs"]))
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
