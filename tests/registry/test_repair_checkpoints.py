"""Checkpoints are read without running code that they contain."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.checkpoints import training_state
from mmvidformer.checkpoints.addresses import read_all_kinds


def test_checkpoints_of_mmengine_load_safely(tmp_path: Path) -> None:
    from mmengine.logging import HistoryBuffer

    history = HistoryBuffer([1.0, 3.0], [1, 1])
    content = {
        "message_hub": {"log_scalars": {"loss": history}, "runtime_info": {"iter": 2}},
        "scalar": np.float64(0.5),
        "count": np.int64(7),
    }
    torch.save(content, tmp_path / "epoch_1.pth")
    loaded = torch.load(tmp_path / "epoch_1.pth", weights_only=True)
    again = loaded["message_hub"]["log_scalars"]["loss"]
    assert [again.mean(), again.max(), again.min(), again.current()] == [2.0, 3.0, 1.0, 3.0]
    assert (loaded["scalar"], loaded["count"]) == (0.5, 7)


def test_another_library_took_a_type_back(tmp_path: Path) -> None:
    """As MMEngine's successor does after each of its own readings."""
    from mmengine.logging import HistoryBuffer
    from mmengine.runner import CheckpointLoader

    torch.save({"message_hub": HistoryBuffer([1.0, 3.0], [1, 1])}, tmp_path / "epoch_1.pth")
    with torch.serialization.safe_globals([HistoryBuffer, np.ndarray, np.dtype]):
        pass
    assert HistoryBuffer not in torch.serialization.get_safe_globals()
    loaded = CheckpointLoader.load_checkpoint(str(tmp_path / "epoch_1.pth"), logger="silent")
    assert loaded["message_hub"].mean() == 2.0


class _ReachesForCode:
    def __reduce__(self) -> tuple:
        return getattr, ("text", "join")


def test_other_attributes_are_refused(tmp_path: Path) -> None:
    torch.save({"state_dict": _ReachesForCode()}, tmp_path / "evil.pth")
    with pytest.raises((pickle.UnpicklingError, PermissionError)):
        torch.load(tmp_path / "evil.pth", weights_only=True)
    with pytest.raises(PermissionError, match="__globals__"):
        training_state.narrow_getattr(training_state.allow_training_state, "__globals__")
    with pytest.raises(PermissionError, match="statistics"):
        from mmengine.logging import HistoryBuffer

        training_state.narrow_getattr(HistoryBuffer, "statistics")


class _RunsCode:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


def test_a_checkpoint_that_would_run_code_is_refused_with_a_remedy(tmp_path):
    from mmengine.runner import CheckpointLoader

    path, mark = tmp_path / "evil.pth", tmp_path / "was_run"
    torch.save({"state_dict": _RunsCode(mark)}, path)
    with pytest.raises(ValueError, match=r"evil\.pth is refused: it names pathlib") as e:
        CheckpointLoader.load_checkpoint(str(path), logger="silent")
    assert "safetensors" in str(e.value) and "weights_only" not in str(e.value)
    assert not mark.exists()


def test_the_config_text_of_a_checkpoint_is_never_run(tmp_path):
    from mmengine.runner import CheckpointLoader

    meta = {"config": "import os", "cfg": "a = 1", "epoch": 3}
    torch.save({"state_dict": {}, "meta": meta}, tmp_path / "a.pth")
    loaded = CheckpointLoader.load_checkpoint(str(tmp_path / "a.pth"), logger="silent")
    assert loaded["meta"] == {"cfg": "a = 1", "epoch": 3}


def test_a_checkpoint_of_what_was_trained_is_refused_unless_it_is_read_whole(tmp_path):
    """MMEngine would load the head, and keep the initial weights of all other parts."""
    from mmengine.runner import CheckpointLoader

    base = {"source": "w.pth", "sha256": {}}
    torch.save({"weight": torch.ones(1)}, tmp_path / "w.pth")
    torch.save({"state_dict": {"bias": torch.ones(1)}, "base": base}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"mmvidformer convert .*a\.pth WHOLE\.pth writes all we"):
        CheckpointLoader.load_checkpoint(str(tmp_path / "a.pth"), logger="silent")
    others = {"state_dict": {"bias": torch.ones(1)}, "base": "resnet"}  # another project's key
    torch.save(others, tmp_path / "b.pth")
    assert CheckpointLoader.load_checkpoint(str(tmp_path / "b.pth"), logger="silent") == others
    read_all_kinds()
    content = CheckpointLoader.load_checkpoint(str(tmp_path / "a.pth"), logger="silent")
    assert content == {"state_dict": {"bias": torch.ones(1)}}


def test_downloaded_weights_are_read_safely(tmp_path, monkeypatch):
    from mmengine.runner import CheckpointLoader

    mark = tmp_path / "was_run"
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    there = tmp_path / "hub" / "checkpoints" / "evil.pth"  # as if downloaded before
    there.parent.mkdir(parents=True)
    torch.save({"state_dict": _RunsCode(mark)}, there)
    with pytest.raises(ValueError, match="refused"):
        CheckpointLoader.load_checkpoint("https://localhost/evil.pth", logger="silent")
    assert not mark.exists()


def test_safetensors_are_loaded_in_the_tools(tmp_path):
    from mmengine.runner import load_checkpoint
    from safetensors.torch import save_file

    read_all_kinds()
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    save_file(model.state_dict(), tmp_path / "a.safetensors")
    load_checkpoint(other, str(tmp_path / "a.safetensors"), logger="silent")
    torch.testing.assert_close(other.weight, model.weight)
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "a.safetensors").read_bytes()[:-4])
    with pytest.raises(ValueError, match=r"cut\.safetensors cannot be read"):
        load_checkpoint(other, str(tmp_path / "cut.safetensors"), logger="silent")
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint .*none\.pth"):
        load_checkpoint(other, str(tmp_path / "none.pth"), logger="silent")


BUFFER = b"cmmengine.logging.history_buffer\nHistoryBuffer\n"


@pytest.mark.parametrize(
    "code",
    [
        b"cbuiltins\ngetattr\n(cnumpy\nndarray\nX\x06\x00\x00\x00tofiletR",  # another type
        b"cbuiltins\ngetattr\n(" + BUFFER + b"X\x08\x00\x00\x00__dict__tR",  # another attribute
        b"cbuiltins\ngetattr\n(" + BUFFER + b"X\x03\x00\x00\x00mintR(tR",  # a call of a statistic
        b"cbuiltins\ngetattr\n(" + BUFFER + b"X\x03\x00\x00\x00minNtR",  # a third argument
        b"cmmengine.logging.history_buffer\nnp.load\n",  # what its module has imported
        b"cmmengine.logging.history_buffer\nHistoryBuffer.register_statistics\n",
        b"cnumpy._core.multiarray\nfromfile\n",  # a neighbour of an allowed function
        b"cmmvidformer.checkpoints.training_state\nnarrow_getattr\n",  # by its own name
    ],
)
def test_the_allowed_types_lead_no_further(code: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + code + b".")
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    with pytest.raises((pickle.UnpicklingError, PermissionError, TypeError)):
        torch.load(path, weights_only=True)
