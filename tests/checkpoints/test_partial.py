"""Checkpoints that take weights from a base: what they name is opened only if it may be."""

from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mmvidformer.checkpoints import load_checkpoint, read_model
from mmvidformer.checkpoints.partial import load_from_source
from mmvidformer.checkpoints.reading import read_content

NAME = "backbone.encoders.0.blocks.0.sublayers.joint.norm.weight"
HEAD = {"cls_head.fc_cls.weight": torch.ones(2, 3), "cls_head.fc_cls.bias": torch.zeros(2)}
FROZEN = {NAME: torch.arange(3.0)}


def hashes(state: dict[str, torch.Tensor]) -> dict[str, str]:
    """Written out, since they are part of the format."""
    heads = {name: f"torch.float32 {tuple(x.shape)}".encode() for name, x in state.items()}
    return {
        name: sha256(heads[name] + x.numpy().tobytes()).hexdigest() for name, x in state.items()
    }


def partial(path: Path, base: object, **more: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    torch.save({"state_dict": HEAD, "meta": {"epoch": 1}, "base": base, **more}, path)
    return path


def test_weights_beside_a_checkpoint_complete_it(tmp_path: Path) -> None:
    save_file(FROZEN, tmp_path / "frozen.safetensors")
    path = partial(tmp_path / "a.pth", dict(source="frozen.safetensors", sha256=hashes(FROZEN)))
    state = load_checkpoint(path).state
    assert state.keys() == {**FROZEN, **HEAD}.keys() and torch.equal(state[NAME], FROZEN[NAME])
    content = load_from_source(str(path))
    assert content.keys() == {"state_dict", "meta"} and content["state_dict"].keys() == state.keys()
    assert read_model(path)[1].state.keys() == state.keys()
    assert read_content(path)["state_dict"].keys() == HEAD.keys()  # what the file says


@pytest.mark.parametrize(
    "source",
    [
        *("{elsewhere}", "../elsewhere/w.pth", "elsewhere/w.pth", "..", ".", "", "~/w.pth"),
        *("..\\elsewhere\\w.pth", "C:w.pth", "file://{elsewhere}", "package:w.pth/../x"),
        *("{address}", "hf://org/name", "published://none"),
    ],
)
def test_other_paths_and_addresses_are_not_opened(source: str, web, tmp_path: Path) -> None:
    """Even if they hold the right weights."""
    save_file(FROZEN, tmp_path / "w.safetensors")
    elsewhere = tmp_path / "elsewhere" / "w.pth"
    elsewhere.parent.mkdir()
    torch.save(FROZEN, elsewhere)
    web.add_repository("org/name", tmp_path / "elsewhere")
    address = web.add("/w.pth", elsewhere.read_bytes())
    source = source.format(elsewhere=elsewhere, address=address)
    path = partial(tmp_path / "run" / "a.pth", dict(source=source, sha256=hashes(FROZEN)))
    for read in (load_checkpoint, read_model, load_from_source):
        with pytest.raises(ValueError, match=r"a\.pth takes weights from .* is not opened: ") as e:
            read(str(path))
        assert "\n" not in str(e.value)
    assert not web.fetched and not (tmp_path / "torch").exists()


@pytest.mark.parametrize(
    "base",
    [
        *(["w.pth"], "w.pth", None, 3, torch.ones(2), {}, {"source": "w.pth"}),
        *({"source": ["w.pth"], "sha256": {}}, {"source": "w.pth", "sha256": [NAME]}),
        *({"source": "w.pth", "sha256": {1: "00"}}, {"source": "w.pth", "sha256": {NAME: 0}}),
        {"source": "w.pth", "crc32": 0},
    ],
    ids=repr,
)
def test_a_base_of_another_form_is_an_error(base: object, tmp_path: Path) -> None:
    torch.save(FROZEN, tmp_path / "w.pth")
    path = partial(tmp_path / "a.pth", base)
    with pytest.raises(ValueError, match=r"the base in .*a\.pth must have a source, and sha256 of"):
        load_checkpoint(path)


def test_a_parameter_called_base_is_loaded(tmp_path: Path) -> None:
    state = {"base": torch.ones(2, 3), "base.weight": torch.zeros(2)}
    for content in (state, {"state_dict": state}, {**state, "state_dict": torch.ones(1)}):
        torch.save(content, tmp_path / "a.pth")
        found = load_checkpoint(tmp_path / "a.pth").state
        assert torch.equal(found["base"], state["base"]) and "base.weight" in found


@pytest.mark.parametrize(
    "sources",
    [
        {"a.pth": "a.pth"},
        {"a.pth": "b.pth", "b.pth": "a.pth"},
        {"a.pth": "b.pth", "b.pth": "c.pth"},
    ],
    ids=["itself", "each other", "chain"],
)
def test_a_base_has_no_base(sources: dict[str, str], tmp_path: Path) -> None:
    torch.save(FROZEN, tmp_path / "c.pth")
    for name, source in sources.items():
        partial(tmp_path / name, dict(source=source, sha256=hashes(FROZEN)))
    with pytest.raises(ValueError, match=r"a\.pth takes .*, which takes them from another file$"):
        load_checkpoint(tmp_path / "a.pth")


def test_a_missing_or_damaged_base_is_named(tmp_path: Path) -> None:
    path = partial(tmp_path / "a.pth", dict(source="w.pth", sha256=hashes(FROZEN)))
    with pytest.raises(FileNotFoundError, match=rf"a\.pth holds .*; put w\.pth into {tmp_path}$"):
        load_checkpoint(path)
    (tmp_path / "w.pth").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match=r"w\.pth must be an npz, msgpack, safetensors or PyTorch"):
        load_checkpoint(path)


@pytest.mark.parametrize("change", ["value", "shape", "type", "name"])
def test_other_weights_are_refused(change: str, tmp_path: Path) -> None:
    state = {NAME: torch.arange(4.0), "backbone.embed.proj.bias": torch.zeros(4)}
    path = partial(tmp_path / "a.pth", dict(source="w.pth", sha256=hashes(state)))
    torch.save(
        {"module." + name: value.half() for name, value in state.items()}, tmp_path / "w.pth"
    )
    assert load_checkpoint(path).state.keys() == {**state, **HEAD}.keys()  # equal as float32
    value = torch.nextafter(state[NAME], torch.tensor(9.0)) if change == "value" else state[NAME]
    value = value.view(2, 2) if change == "shape" else value
    value = value.int() if change == "type" else value
    other = {f"{NAME}2" if change == "name" else NAME: value}
    bias = {"backbone.embed.proj.bias": state["backbone.embed.proj.bias"]}
    torch.save(bias | other, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=f"other weights than w.pth holds: 1 of 2 .*{NAME}"):
        load_checkpoint(path)


def test_published_weights_are_fetched_and_converted(web, table, tmp_path: Path) -> None:
    from mmvidformer.checkpoints.video_models import to_other
    from mmvidformer.models import TimeSformer

    arch = dict(embed_dims=16, depth=1, num_heads=2)
    model = TimeSformer(arch, clip_len=2, img_size=32)
    state = {f"backbone.{name}": value.detach() for name, value in model.state_dict().items()}
    official = to_other({**state, **HEAD}, "divided_space_time", "official")
    torch.save({"model_state": official}, tmp_path / "w.pyth")
    address = web.add("/w.pyth", (tmp_path / "w.pyth").read_bytes())
    table(dict(name="mine", address=address, format="timesformer"))
    for source in (address, "published://mine"):
        path = partial(tmp_path / "a.pth", dict(source=source, sha256=hashes(state)))
        found = load_checkpoint(path).state
        assert found.keys() == {**state, **HEAD}.keys()
        assert all(torch.equal(found[name], value) for name, value in state.items())
    assert web.fetched["/w.pyth"] == 1
    wrong = hashes(state) | {NAME: "00"}
    partial(path, dict(source="published://mine", sha256=wrong))
    with pytest.raises(
        ValueError, match=f"other weights than published://mine holds: 1 of .*{NAME}"
    ):
        load_checkpoint(path)
