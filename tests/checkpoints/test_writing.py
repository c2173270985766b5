"""Files of weights may be read by whom the folder lets read."""

import os
import stat
from pathlib import Path

import torch
from safetensors import safe_open

from mmvidformer.checkpoints.writing import save_tensors


def test_a_file_has_the_rights_of_others(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save_tensors({"a": torch.eye(3).T[:, :2]}, tmp_path / "a.safetensors", format="pt")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.safetensors").stat().st_mode) == 0o640
    with safe_open(tmp_path / "a.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert file.get_tensor("a").tolist() == [[1, 0], [0, 1], [0, 0]]
