"""Training on half of the tokens, on a few clips: rows, and times to an accuracy."""

import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks import token_dropping
from benchmarks.token_dropping import WAYS, rows_of, time_to
from mmvidformer.models.video_transformer import VideoTransformer


@pytest.fixture
def process() -> Iterator[None]:
    """Take back what the benchmark sets in its process."""
    threads, method = torch.get_num_threads(), multiprocessing.get_start_method(allow_none=True)
    yield
    torch.set_num_threads(threads)
    multiprocessing.set_start_method(method, force=True)


def test_rows(process, tmp_path: Path, capsys, monkeypatch) -> None:
    """Both numbers of epochs end with all tokens; what was recorded is not trained again."""
    shares: list[float] = []
    forward = VideoTransformer.forward

    def watched(self, *args, **kwargs):
        if self.training:
            shares.append(self.token_keep)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(VideoTransformer, "forward", watched)
    options = ["--tasks", "cues", "--seeds", "1", "--clips", "8", "--workers", "0"]
    for _ in range(2):
        token_dropping.main([*options, "--root", str(tmp_path)])
    assert shares == [1.0] * 8 + [0.5] * 7 + [1.0] + [0.5] * 13 + [1.0] * 3
    records = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert {name: len(epochs) for name, epochs in records.items()} == {
        "cues_1_1_0": 8,
        "cues_0.5_1_0": 8,
        "cues_0.5_2_0": 16,
    }
    for epochs in records.values():
        seconds, accuracies = zip(*epochs, strict=True)
        assert 0 < seconds[0] and list(seconds) == sorted(seconds)
        assert all(0 <= accuracy <= 1 for accuracy in accuracies)
    first, second = capsys.readouterr().out.split("| tokens |")[1:]
    assert first.partition("\n")[2].splitlines()[:6] == second.partition("\n")[2].splitlines()[:6]
    assert "timesformer_motion, cues" in first


def test_times_to_the_same_accuracy() -> None:
    epochs = [(1.0, 0.2), (2.0, 0.9), (3.0, 0.8)]
    assert [time_to(epochs, share) for share in (0.1, 0.85, 0.95)] == [1.0, 2.0, None]
    runs = {WAYS[0]: [epochs, [(1.0, 0.5), (4.0, 0.8)]], WAYS[1]: [[(0.5, 0.7)], [(1.0, 0.79)]]}
    whole, half = (row.strip("| ").split(" | ") for row in rows_of(runs))
    assert whole == ["100%", "80.0 ± 0.0", "4 ± 6", "78.0%", "3 ± 13", "2 of 2"]
    assert half[0] == "50%" and half[3:] == ["78.0%", "1", "1 of 2"]


@pytest.mark.parametrize("way", WAYS)
def test_the_schedule_is_as_long_as_the_run(way) -> None:
    cfg = token_dropping.make_config("plain", way, Path("clips"), 0)
    epochs = cfg.train_cfg.max_epochs
    assert epochs == 20 * way.times
    assert [scheduler["end"] for scheduler in cfg.param_scheduler] == [epochs / 10, epochs]
    assert cfg.train_dataloader.dataset.ann_file == str(Path("clips", "train.txt"))
