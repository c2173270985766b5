"""ONNX files with linear layers of 8 bits: which layers, how near, and what is refused."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.torch_version import TorchVersion

from mmvidformer.errors import UserError
from mmvidformer.export import export, make_graph, write
from mmvidformer.export.card import KEY
from mmvidformer.tasks.changes import TooInexact
from tests.export.recognizers import EARLY, MODEL_LIST, SIZE, TUBES, build, causal, clips
from tests.export.stand_in import stand_in_for_onnx
from tests.export.test_export import need_onnx

SMALL = clips("ViViT", stem=TUBES, temporal_depth=1)


def operators(path: Path) -> Counter:
    import onnx

    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.parametrize("name", ["ViViT", "FeatureFixationTransformer", "attentive pooling"])
def test_linear_layers_of_blocks_have_8_bits(name: str, tmp_path: Path) -> None:
    need_onnx()
    import onnxruntime

    torch.manual_seed(0)
    options = dict(stem=TUBES, temporal_depth=1) if name == "ViViT" else {}
    model = build(MODEL_LIST.get(name) or clips(name, **options))
    path = tmp_path / "int8.onnx"
    graph = make_graph(model, SIZE)
    assert 1e-4 < export(graph, path, {"a card": 1}, int8=True) < 0.1
    assert [*tmp_path.iterdir()] == [path]
    parts = [*model.backbone.encoders.modules()]
    if name == "attentive pooling":
        parts += model.cls_head.pooling.blocks.modules()
    linear = [part for part in parts if type(part) is torch.nn.Linear]
    gates = [part for name, part in model.named_modules() if "fixation.gates." in name]
    assert operators(path)["MatMulInteger"] == len(linear) - len(gates)
    session = onnxruntime.InferenceSession(path)
    assert "a card" in session.get_modelmeta().custom_metadata_map[KEY]
    clip = torch.randn(3, *SIZE)
    (found,) = session.run(None, {"clip": clip.numpy()})
    with torch.no_grad():
        expected = graph(clip)[0].numpy()
    assert 0 < np.abs(found - expected).max() < 0.1 * max(np.abs(expected).max(), 1)


def test_stacks_of_matrices_have_none(tmp_path: Path) -> None:
    """ONNX Runtime has a kernel for one matrix alone."""
    need_onnx()
    cfg = causal(EARLY)
    recurrence = dict(pattern="causal_time", kernel=dict(type="recurrence", expand=2))
    cfg["backbone"]["block"] = [recurrence, dict(pattern="space")]
    path = tmp_path / "int8.onnx"
    assert export(make_graph(build(cfg), SIZE), path, int8=True) < 0.1
    assert operators(path)["MatMulInteger"] > 0


def test_answers_on_clips_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_onnx()
    stand_in_for_onnx(monkeypatch)
    monkeypatch.setattr(write, "round_to_int8", shutil.copyfile)
    graph, path = make_graph(build(SMALL), SIZE), tmp_path / "model.onnx"
    load = write.WRITERS[".onnx"][1]

    def load_reversed(file: Path) -> write.Run:
        run = load(file)
        if not file.name.startswith("int8_"):
            return run
        return lambda inputs: [-x for x in run(inputs)]

    writer = (write.WRITERS[".onnx"][0], load_reversed, ())
    monkeypatch.setitem(write.WRITERS, ".onnx", writer)
    monkeypatch.setattr(write, "INT8_TOLERANCE", 100)
    with pytest.raises(TooInexact, match=r"int8: 4 of 4 answers changed, .* more than 10%"):
        export(graph, path, int8=True, clips=[torch.randn(2, *SIZE)] * 2)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("output", "changed"), [("logits", 2), ("rates", 0)])
def test_only_classes_are_answers(output: str, changed: int) -> None:
    """The largest of several rates is no answer."""
    graph = make_graph(build(MODEL_LIST["camera motion"]), SIZE)
    place = graph.output_names.index(output)

    def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        outputs = [*graph(*inputs)]
        outputs[place] = -outputs[place]
        return outputs

    change = write.compare_answers(graph, run, [torch.randn(2, *SIZE)])
    assert (change.answers, change.changed) == (2, changed)
    assert change.difference > 0


def test_other_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="int8 is for .onnx files, got model.pt2"):
        export(make_graph(build(SMALL), SIZE), tmp_path / "model.pt2", int8=True)


def test_an_old_pytorch_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.6.0+cu124"))
    with pytest.raises(UserError, match="onnx needs PyTorch 2.7 or newer, this is 2.6.0.cu124"):
        export(make_graph(build(SMALL), SIZE), tmp_path / "model.onnx")


def test_the_tool_checks_a_video(main_of, tiny_videos, tmp_path: Path, capsys) -> None:
    need_onnx()
    out, video = tmp_path / "model.onnx", str(tiny_videos.root / "val_0.mp4")
    command = ["camera_motion", "--out", str(out), "--int8", "--check", video]
    words = "clips of .* are 8 64 128, the file takes 8 64 64; set --shape 8 64 128"
    with pytest.raises(UserError, match=words):
        main_of("export")(command)
    assert main_of("export")([*command, "--shape", "8", "64", "128"]) == 0
    printed = capsys.readouterr().out
    assert f"{out}: largest difference from the model " in printed
    assert operators(out)["MatMulInteger"] > 0
    with pytest.raises(SystemExit):
        main_of("export")(["camera_motion", "--out", str(out), "--force", "--check", video])
