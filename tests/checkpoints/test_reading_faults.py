"""Checkpoint files that hold code, are damaged or are none: refused by name."""

import pickle
from pathlib import Path

import msgpack
import numpy as np
import pytest
import torch

from mmvidformer.checkpoints import load_checkpoint
from mmvidformer.checkpoints.huggingface import save_huggingface
from mmvidformer.checkpoints.reading import read_content
from tests.checkpoints.weight_files import WEIGHTS, Hostile, write


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
    with pytest.raises(ValueError, match="a.pth cannot be read: it is empty"):
        load_checkpoint(tmp_path / "a.pth")


RING: dict = {}
RING["model"] = RING  # a wrapper that is its own content


@pytest.mark.parametrize("content", [{}, {"state_dict": {}}, {"classifiers": []}, [1], RING])
def test_files_without_weights(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"a\.pth must contain a state dict"):
        load_checkpoint(tmp_path / "a.pth")


def test_a_damaged_file_of_the_folder_in_which_one_works_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text("{.")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^\. cannot be read"):  # "." is in many messages
        load_checkpoint(Path("."))


def test_arrays_in_chunks_are_refused(tmp_path: Path) -> None:
    chunks = {"__msgpack_chunked_array__": True, "shape": {"0": 2}, "chunks": {}}
    (tmp_path / "a.msgpack").write_bytes(msgpack.packb({"w": chunks}))
    with pytest.raises(
        ValueError, match=r"a\.msgpack cannot be read: array w/ is stored in chunks"
    ):
        load_checkpoint(tmp_path / "a.msgpack")


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
    with pytest.raises(ValueError, match="hf cannot be read: .*config.json must .*: Expecting"):
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
