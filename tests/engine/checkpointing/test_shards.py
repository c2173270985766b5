"""Sharded checkpoints, merged or damaged."""

import runpy
from pathlib import Path

import pytest
import torch

from mmvidformer.engine.checkpointing.resume import latest_checkpoint
from mmvidformer.engine.checkpointing.shards import NOTE, ROWS, mark_complete, merge_shards

TOOLS = Path(__file__).parents[3] / "tools"


def write(folder, rank: int, values: list[float]) -> None:
    folder.mkdir(exist_ok=True)
    saved = dict(state_dict=dict(w={ROWS: torch.tensor(values)}), meta=dict(epoch=1))
    torch.save(saved, folder / f"rank{rank}.pth")


def test_shards_are_merged(tmp_path):
    folder = tmp_path / "epoch_1.pth"
    for rank, values in enumerate([[0.0, 1.0], [2.0, 3.0], []]):
        write(folder, rank, values)
    with pytest.raises(ValueError, match="epoch_1.pth has no complete.json"):
        merge_shards(folder)
    with pytest.raises(ValueError, match="all checkpoints .* are damaged"):
        latest_checkpoint(tmp_path)
    mark_complete(folder, 3)
    assert latest_checkpoint(tmp_path) == str(folder)
    main = runpy.run_path(str(TOOLS / "merge_shards.py"))["main"]
    main([str(folder), str(tmp_path / "one.pth"), "--weights-only"])
    merged = torch.load(tmp_path / "one.pth", weights_only=True)
    assert merged["meta"] == dict(epoch=1)
    assert merged["state_dict"]["w"].tolist() == [0, 1, 2, 3]
    (folder / NOTE).unlink()
    with pytest.raises(ValueError, match="unfinished"):
        merge_shards(folder)


def test_what_is_missing_is_named(tmp_path):
    write(tmp_path, 0, [0.0, 1.0])
    mark_complete(tmp_path, 2)
    with pytest.raises(ValueError, match="by 2 ranks and lacks rank1.pth"):
        merge_shards(tmp_path)
