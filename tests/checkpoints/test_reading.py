"""Reading and writing checkpoint files."""

import errno
import json
import os
from pathlib import Path
from typing import BinaryIO

import huggingface_hub
import msgpack
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mmvidformer.checkpoints import load_checkpoint
from mmvidformer.checkpoints.convert import save_checkpoint
from mmvidformer.checkpoints.huggingface import save_huggingface
from tests.checkpoints.weight_files import WEIGHTS, Hostile, flax_array, write


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.pyth", "legacy.bin", "noname"])
def test_kinds_of_files(name: str, tmp_path: Path) -> None:
    write(tmp_path / name)
    state = load_checkpoint(tmp_path / name).state
    assert state.keys() == WEIGHTS.keys()
    assert all(torch.equal(state[name], WEIGHTS[name]) for name in WEIGHTS)


@pytest.mark.parametrize(
    "names", [("model", "state_dict"), ("state_dict", "model"), ("model",) * 3]
)
def test_wrappers_inside_of_others(names: tuple[str, ...], tmp_path: Path) -> None:
    content = WEIGHTS
    for name in reversed(names):
        content = {name: content, "epoch": 3}
    torch.save(content, tmp_path / "a.pth")
    assert load_checkpoint(tmp_path / "a.pth").state.keys() == WEIGHTS.keys()


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch
) -> None:
    def fail(state: dict, file: Path | BinaryIO, *metadata: object) -> None:
        (file if isinstance(file, Path) else Path(file.name)).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name, writer in (("a.pth", "torch.save"), ("a.safetensors", "writing.save_file")):
        save_checkpoint(tmp_path / name, WEIGHTS, {})
        with monkeypatch.context() as patch:
            target = writer if writer == "torch.save" else f"mmvidformer.checkpoints.{writer}"
            patch.setattr(target, fail)
            with pytest.raises(OSError, match="No space left"):
                save_checkpoint(tmp_path / name, {"other": torch.ones(1)}, {})
        assert load_checkpoint(tmp_path / name).state.keys() == WEIGHTS.keys()
    assert {file.name for file in tmp_path.iterdir()} == {"a.pth", "a.safetensors"}


def test_a_changed_byte_is_not_read_as_another_weight(tmp_path: Path) -> None:
    """PyTorch does not look at the checksums."""
    path = tmp_path / "a.pth"
    write(path)
    content = bytearray(path.read_bytes())
    weight = max(WEIGHTS.values(), key=lambda value: value.nbytes)
    content[content.index(weight.numpy().tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="a.pth is damaged: its checksums are not those"):
        load_checkpoint(path)


def test_own_checkpoint_has_weights_and_meta_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.pth"
    save_checkpoint(path, WEIGHTS, {"tubelet": (2, 16, 16)})
    assert set(torch.load(path, weights_only=True)) == {"state_dict", "meta"}
    assert load_checkpoint(path).meta == {"tubelet": (2, 16, 16)}


def test_huggingface_folder(tmp_path: Path) -> None:
    save_huggingface(tmp_path / "hf", WEIGHTS, {"num_frames": 32}, {})
    loaded = load_checkpoint(tmp_path / "hf")
    assert loaded.meta == {"num_frames": 32} and loaded.state.keys() == WEIGHTS.keys()
    save_huggingface(tmp_path / "only.safetensors", WEIGHTS, {}, {})
    assert load_checkpoint(tmp_path / "only.safetensors").state.keys() == WEIGHTS.keys()


OTHER = {name: value + 1 for name, value in WEIGHTS.items()}


def check_folder(path: Path) -> None:
    state = load_checkpoint(path).state
    assert state.keys() == WEIGHTS.keys()
    assert all(torch.equal(state[name], WEIGHTS[name]) for name in WEIGHTS)


def test_other_weights_in_a_folder_are_not_read(tmp_path: Path) -> None:
    """Such as those of half precision, or of an adapter."""
    for name in ("a", "model.fp16", "model_ema", "z"):
        save_file(OTHER, tmp_path / f"{name}.safetensors")
        torch.save(OTHER, tmp_path / f"{name}.bin")
    torch.save(WEIGHTS, tmp_path / "pytorch_model.bin")
    check_folder(tmp_path)
    torch.save(OTHER, tmp_path / "pytorch_model.bin")
    save_file(WEIGHTS, tmp_path / "model.safetensors")
    check_folder(tmp_path)


def test_what_a_trainer_writes_beside_the_weights_is_not_read(tmp_path: Path) -> None:
    mark = tmp_path / "was_run"
    torch.save(Hostile(mark), tmp_path / "training_args.bin")
    torch.save(WEIGHTS, tmp_path / "pytorch_model.bin")
    check_folder(tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize("safe", [True, False])
def test_shards_of_a_folder(safe: bool, tmp_path: Path) -> None:
    options = dict(max_shard_size=20, safe_serialization=safe)
    huggingface_hub.save_torch_state_dict(dict(WEIGHTS), tmp_path, **options)
    (index,) = tmp_path.glob("*.index.json")
    assert len({*json.loads(index.read_text())["weight_map"].values()}) == 2
    check_folder(tmp_path)
    (tmp_path / "config.json").write_text('{"num_frames": 32}')
    assert load_checkpoint(tmp_path).meta == {"num_frames": 32}


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a.weight": "none.safetensors"}, "index.json names none.safetensors, which is not there"),
        *(({"a.weight": x}, f"names {x!r}, which must be a file in") for x in ("../w.pth", "..")),
        ({"a.weight": "/w.pth"}, "names '/w.pth', which must be a file in the same folder"),
        ({"a.weight": ["w.pth"]}, r"names \['w.pth'\], which must be a file in the same folder"),
        ({"a.weight": "w.pth", "c": "w.pth"}, r"names 1 tensors that their files lack: \['c'\]"),
        (["w.pth"], "must have a weight_map, from names of tensors to files"),
        (None, "must have a weight_map, from names of tensors to files"),
    ],
)
def test_wrong_indices_of_a_folder(weight_map: object, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "hf"
    folder.mkdir()
    torch.save(WEIGHTS, tmp_path / "w.pth")
    torch.save(WEIGHTS, folder / "w.pth")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_checkpoint(folder)


def test_flax_msgpack(tmp_path: Path) -> None:
    half = torch.tensor([1.0, -2.5], dtype=torch.bfloat16)
    tree = {
        "step": 7,
        "rng": None,
        "params": {
            "dense": {"kernel": flax_array(np.eye(2, 3, dtype="float32"))},
            "half": flax_array(half.view(torch.int16).numpy(), "bfloat16"),
        },
    }
    (tmp_path / "checkpoint").write_bytes(msgpack.packb(tree))
    state = load_checkpoint(tmp_path / "checkpoint").state
    assert state.keys() == {"params/dense/kernel", "params/half"}
    assert torch.equal(state["params/dense/kernel"], torch.eye(2, 3))
    assert torch.equal(state["params/half"], half)
