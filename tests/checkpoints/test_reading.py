"""Reading and writing checkpoint files."""

import json
import os
import pickle
from pathlib import Path

import huggingface_hub
import msgpack
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mmvidformer.checkpoints import load_checkpoint
from mmvidformer.checkpoints.convert import save_checkpoint
from mmvidformer.checkpoints.huggingface import save_huggingface
from mmvidformer.checkpoints.reading import read_content

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(3)}


def write(path: Path) -> None:
    if path.suffix == ".npz":
        np.savez(path, **{name: value.numpy() for name, value in WEIGHTS.items()})
    elif path.suffix == ".safetensors":
        save_file(WEIGHTS, path)
    elif path.stem == "legacy":
        torch.save(WEIGHTS, path, _use_new_zipfile_serialization=False)
    elif path.suffix == ".msgpack":
        tree = {name: flax_array(value.numpy()) for name, value in WEIGHTS.items()}
        path.write_bytes(msgpack.packb(tree))
    else:
        torch.save({"model_state": WEIGHTS, "epoch": 3}, path)


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.pyth", "legacy.bin", "noname"])
def test_kinds_of_files(name: str, tmp_path: Path) -> None:
    write(tmp_path / name)
    state = load_checkpoint(tmp_path / name).state
    assert state.keys() == WEIGHTS.keys()
    assert all(torch.equal(state[name], WEIGHTS[name]) for name in WEIGHTS)


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


def flax_array(array: np.ndarray, dtype: str | None = None) -> msgpack.ExtType:
    content = (array.shape, dtype or array.dtype.name, array.tobytes())
    return msgpack.ExtType(1, msgpack.packb(content))


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


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.mark}",)


class Reaching(Hostile):
    """Asks for an attribute by the function that MMEngine's checkpoints name."""

    def __reduce__(self) -> tuple:
        from mmengine.logging import HistoryBuffer

        return getattr, (HistoryBuffer, "__init__")


@pytest.mark.parametrize("kind", ["getattr", "script"])
def test_other_ways_to_code_are_refused(kind: str, tmp_path: Path) -> None:
    import mmvidformer.registry  # noqa: F401  (allows what MMEngine's checkpoints need)

    path = tmp_path / "bad.pth"
    if kind == "script":
        torch.jit.script(torch.nn.Linear(1, 1)).save(str(path))
    else:
        torch.save({"state_dict": {"w": Reaching(path)}}, path)
    with pytest.raises(ValueError, match=r"bad\.pth is refused"):
        load_checkpoint(path)


@pytest.mark.parametrize("kind", ["torch", "pickle", "npz"])
def test_code_in_a_file_is_refused_and_not_run(kind: str, tmp_path: Path) -> None:
    path, mark = tmp_path / "bad.pth", tmp_path / "was_run"
    content = {"state_dict": {"w": Hostile(mark)}}
    if kind == "torch":
        torch.save(content, path)
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(content, protocol=2))
    else:
        with path.open("wb") as file:
            np.savez(file, w=np.array([Hostile(mark)], dtype=object))
    assert b"system" in path.read_bytes()
    reason = "cannot be read: .*allow_pickle=False" if kind == "npz" else "is refused"
    with pytest.raises(ValueError, match=rf"bad\.pth {reason}") as error:
        load_checkpoint(path)
    assert "weights_only" not in str(error.value)
    assert not mark.exists()


def test_text_in_npz_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", w=np.ones(2), note=np.array("text"))
    with pytest.raises(ValueError, match=r"a\.npz cannot be read: .*type numpy\.str_"):
        load_checkpoint(tmp_path / "a.npz")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.pth").touch()
    with pytest.raises(ValueError, match="a.pth cannot be read: it ends too early"):
        load_checkpoint(tmp_path / "a.pth")


@pytest.mark.parametrize("content", [b"hello, not a checkpoint", b"cos\nsystem\n."])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_bytes(content)
    with pytest.raises(ValueError, match="must be an npz, msgpack, safetensors or PyTorch file"):
        load_checkpoint(tmp_path / "a.pth")


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.pyth", "legacy.bin", "a.msgpack"])
def test_files_cut_short_are_a_clear_error(name: str, keep: float, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(ValueError, match=name):
        load_checkpoint(path)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.pyth", "legacy.bin", "a.msgpack"])
def test_damaged_files_are_read_or_named(name: str, damage: str, tmp_path: Path) -> None:
    """Flipped bits of a weight cannot be noticed: the formats have no checksums that are read."""
    path, rng = tmp_path / name, np.random.default_rng(0)
    write(path)
    content = path.read_bytes()
    named = 0
    for length in range(0, len(content), len(content) // 150 + 1):
        changed = bytearray(content[:length] if damage == "cut" else content)
        if damage == "flipped":
            changed[length] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        try:
            load_checkpoint(path)
        except ValueError as error:
            assert str(path) in str(error)
            named += 1
    assert named > 0


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "none.npz")
    with pytest.raises(
        FileNotFoundError, match=r"no model\.safetensors or pytorch_model\.bin, nor"
    ):
        load_checkpoint(tmp_path)


def test_damaged_config_of_a_folder(tmp_path: Path) -> None:
    save_huggingface(tmp_path / "hf", WEIGHTS, {"num_frames": 32}, {})
    (tmp_path / "hf" / "config.json").write_text("{")
    with pytest.raises(ValueError, match="hf cannot be read: Expecting"):
        load_checkpoint(tmp_path / "hf")


def test_file_without_state_dict(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"\['epoch'\] are no tensors"):
        load_checkpoint(tmp_path / "a.pth")


def test_a_missing_device_is_named(tmp_path: Path) -> None:
    torch.save({"state_dict": {"w": torch.ones(2)}}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"a\.pth cannot be read: .*xpu"):
        read_content(tmp_path / "a.pth", "xpu:99")


def test_too_little_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: object, **options: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    torch.save({"state_dict": {"w": torch.ones(2)}}, tmp_path / "a.pth")
    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(ValueError, match=r"a\.pth cannot be read: CUDA out of memory"):
        read_content(tmp_path / "a.pth")
