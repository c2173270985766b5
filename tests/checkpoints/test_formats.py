"""Converting checkpoint files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mmvidformer.checkpoints import convert_file, load_checkpoint, read_model
from mmvidformer.cli import convert
from mmvidformer.engine.errors import run_tool
from mmvidformer.models import ViViT

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
MSGPACK = GOLDEN / "vivit_m2_token_a.flax.msgpack"


@pytest.fixture(scope="module")
def command() -> Callable[[list], int]:
    """The ``main`` of ``mmvidformer convert``."""
    return lambda args: convert.main([str(arg) for arg in args])


def test_command_prints_a_report_and_writes_ours(
    command: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert command([MSGPACK, tmp_path / "out.pth", "--grid", "4,4,6"]) == 0
    report = capsys.readouterr().out
    assert "format: scenic ViViT" in report
    assert "ignored: nothing\nmissing: nothing\n" in report

    content = torch.load(tmp_path / "out.pth", weights_only=True)
    assert content["meta"]["converted_from"] == "scenic"
    settings = content["meta"]["backbone"]
    assert settings["arch"] == dict(embed_dims=32, depth=2, num_heads=4, mlp_ratio=2.0)
    assert settings["scheme"] == "factorized_encoder" and settings["temporal_depth"] == 1
    assert settings["img_size"] == (32, 48) and settings["clip_len"] == 8

    name, again = read_model(tmp_path / "out.pth")
    assert name == "mmvidformer" and again.num_heads == 4
    expected = read_model(MSGPACK, grid=(4, 4, 6))[1].state
    assert again.state.keys() == expected.keys()
    assert all(torch.equal(again.state[key], expected[key]) for key in expected)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([MSGPACK, "out.pth"], "fits no square frame; give the grid T,H,W"),
        (["none.npz", "out.pth"], "there is no checkpoint none.npz"),
    ],
    ids=["grid", "file"],
)
def test_command_fails_clearly(
    args: list, message: str, command: Callable, capsys: pytest.CaptureFixture
) -> None:
    assert run_tool(lambda: command(args)) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") and message in printed.err
    assert not printed.out


@pytest.mark.parametrize("grid", ["4,4", "4,4,x", "0,4,6"])
def test_command_refuses_a_bad_grid(
    grid: str, command: Callable, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as ended:
        command([MSGPACK, "out.pth", "--grid", grid])
    assert ended.value.code != 0
    assert "--grid" in capsys.readouterr().err


def tiny_model_1(path: Path, **extra: torch.Tensor) -> None:
    arch = dict(embed_dims=16, depth=1, num_heads=2)
    model = ViViT(arch, "spacetime", img_size=16, clip_len=4, stem=dict(tubelet=(2, 8, 8)))
    state = {f"backbone.{name}": value for name, value in model.state_dict().items()}
    head = {"cls_head.fc_cls.weight": torch.zeros(3, 16), "cls_head.fc_cls.bias": torch.zeros(3)}
    torch.save({"state_dict": state | head | extra}, path)


def test_heads_are_asked_for_where_the_source_does_not_tell(tmp_path: Path) -> None:
    tiny_model_1(tmp_path / "a.pth")
    with pytest.raises(ValueError, match="does not contain the number of heads"):
        convert_file(tmp_path / "a.pth", tmp_path / "hf", "huggingface", scheme="spacetime")
    assert not (tmp_path / "hf").exists()
    options = dict(num_heads=2, scheme="spacetime")
    convert_file(tmp_path / "a.pth", tmp_path / "hf", "huggingface", **options)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["num_attention_heads"] == 2 and config["num_frames"] == 4
    assert config["image_size"] == 16 and len(config["id2label"]) == 3


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("out.npz", dict(grid=(4, 4, 6)), "the target must be a .pth or .safetensors file"),
        ("out.pth", dict(grid=(4, 4, 6), num_heads=3), "has 4 heads, not 3"),
        (
            "hf",
            dict(grid=(4, 4, 6), to="huggingface"),
            "HuggingFace has no model like .* with scheme 'factorized_encoder'",
        ),
        ("out.pth", dict(grid=(4, 4, 6), to="onnx"), "to must be one of"),
        ("out.pth", dict(grid=(9, 4, 6)), "temporal position table has 4 frames, not 9"),
    ],
)
def test_wrong_requests(target: str, options: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        convert_file(MSGPACK, tmp_path / target, **options)
    assert not list(tmp_path.iterdir())


def test_option_that_the_format_does_not_take(tmp_path: Path) -> None:
    tiny_model_1(tmp_path / "a.pth")
    with pytest.raises(ValueError, match="mmvidformer checkpoint, which takes no grid"):
        read_model(tmp_path / "a.pth", grid=(2, 2, 2))


def test_matrices_in_half_precision(command: Callable, tmp_path: Path) -> None:
    """Buffers, such as what a model of numbers multiplies by, have a range of their own."""
    extra = {"cls_head.mean": torch.tensor([120_000.0]), "cls_head.std": torch.tensor([1e-8])}
    extra |= {"cls_head.count": torch.tensor([[70_000]]), "cls_head.directions": torch.eye(2)}
    tiny_model_1(tmp_path / "a.pth", **extra)
    assert command([tmp_path / "a.pth", tmp_path / "b.safetensors", "--half"]) == 0
    before, after = (load_checkpoint(tmp_path / name).state for name in ("a.pth", "b.safetensors"))
    assert before.keys() == after.keys()
    halved = {name for name in before if name.endswith(".weight") and before[name].dim() > 1}
    assert {"cls_head.fc_cls.weight", "backbone.embed.proj.weight"} < halved
    for name, value in before.items():
        assert after[name].equal(value.half() if name in halved else value), name
        assert after[name].dtype == (torch.float16 if name in halved else value.dtype), name


@pytest.mark.parametrize("value", [65_520.0, -1e30])
def test_matrices_beyond_half_precision_are_refused(value: float, tmp_path: Path) -> None:
    weight = torch.full((3, 16), value)
    tiny_model_1(tmp_path / "a.pth", **{"cls_head.fc_cls.weight": weight})
    with pytest.raises(ValueError, match=r"cls_head\.fc_cls\.weight has .* of at most 65504"):
        convert_file(tmp_path / "a.pth", tmp_path / "b.pth", half=True)
    assert not (tmp_path / "b.pth").exists()
    convert_file(tmp_path / "a.pth", tmp_path / "b.pth")
