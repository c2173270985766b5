"""Whatever writes a file: on a full disk the old one stays, and the error names it."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mmvidformer.checkpoints.huggingface import save_huggingface
from mmvidformer.data.sources import Source
from mmvidformer.data.tables import Table
from mmvidformer.errors import CannotWrite
from mmvidformer.sinks import SINKS
from mmvidformer.sinks.base import Begun, SinkOptions
from mmvidformer.sinks.film import annotate_video
from mmvidformer.storage.atomic import open_rows, write_atomically, write_together
from mmvidformer.tasks.lists import split_annotations
from mmvidformer.video.check_files import find_faults
from tests.full_disk import error_of
from tests.sinks.test_annotation_tools import predict
from tests.sinks.test_film_sound import write_flashes
from tests.sinks.test_sinks import windows

WEIGHTS = {"a": torch.zeros(100, 100)}


def save_text(part: Path) -> None:
    part.write_text("x" * 10_000)


def save_arrays(part: Path) -> None:
    with part.open("wb") as file:
        np.savez(file, a=np.zeros(10_000))


LIBRARIES = {
    "text": save_text,
    "numpy": save_arrays,
    "torch": partial(torch.save, WEIGHTS),
    "safetensors": partial(save_file, WEIGHTS),
}


@pytest.mark.parametrize("size", [0, 4096])
@pytest.mark.parametrize("save", LIBRARIES.values(), ids=LIBRARIES)
def test_errors_of_libraries_are_those_of_the_disk(save: Callable, size: int, tmp_path) -> None:
    """Those of PyTorch do not even say that the disk is full."""
    path = tmp_path / "result"
    path.write_text("before")

    def write() -> None:
        with write_atomically(path) as part:
            save(part)

    assert error_of(write, size) == f"CannotWrite: [Errno 27] File too large: '{path}'"
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["result"]


def test_files_that_belong_together_are_all_old_or_all_new(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "b").symlink_to("elsewhere/b")

    def write(size: int = 1) -> None:
        with write_together(tmp_path) as folder:
            (folder / "a").write_text("after")
            (folder / "b").write_text("x" * size)

    error = error_of(partial(write, 10_000))
    assert error == f"CannotWrite: [Errno 27] File too large: '{tmp_path}'"
    assert (tmp_path / "a").read_text() == "before"
    write()
    assert (tmp_path / "a").read_text() == "after"
    assert (tmp_path / "b").is_symlink() and (tmp_path / "elsewhere" / "b").read_text() == "x"
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "elsewhere"]


def test_old_lists_stay_together(tmp_path: Path) -> None:
    """A new list for training beside an old one for tests would train on tests."""
    for name in "abcd":
        (tmp_path / f"{name}.mp4").touch()
    long = "y" * 5000  # in the last file that is written
    rows = [([f"{name}.mp4", long if name == "d" else "x"], name) for name in "abcd"]
    table = Table(tmp_path / "all.csv", ["video", "label"], rows, tmp_path)
    (tmp_path / "train.txt").write_text("old.mp4 0\n")
    split = partial(split_annotations, table, "classes", tmp_path, force=True, check=False)
    assert "CannotWrite" in error_of(split)
    assert (tmp_path / "train.txt").read_text() == "old.mp4 0\n"
    assert not (tmp_path / "val.txt").exists()


def test_a_folder_of_huggingface_stays_whole(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("old")
    error = error_of(partial(save_huggingface, tmp_path, WEIGHTS, {"model_type": "x"}, {}))
    assert error.startswith("CannotWrite") and str(tmp_path) in error
    assert os.listdir(tmp_path) == ["config.json"]
    assert (tmp_path / "config.json").read_text() == "old"


@pytest.mark.parametrize("size", [0, 2048])
def test_a_film_with_sound(size: int, tmp_path: Path) -> None:
    """FFmpeg ends the process if a file is written after its header could not be."""
    video, film = write_flashes(tmp_path / "a.mp4"), tmp_path / "film.mp4"
    film.write_text("before")
    error = error_of(partial(annotate_video, video, [], film), size)
    assert error == f"CannotWrite: [Errno 27] File too large: '{film}'"
    assert film.read_text() == "before" and sorted(os.listdir(tmp_path)) == ["a.mp4", "film.mp4"]


@pytest.mark.parametrize("name", ["json", "csv", "windows", "subtitles"])
def test_rows(name: str, tmp_path: Path) -> None:
    target = tmp_path / "a.srt"

    def write() -> None:
        with SINKS[name].load()(target, SinkOptions()) as sink:
            for number in range(100):
                for prediction in windows(f"{number}.mp4"):
                    sink._video = prediction.source  # of subtitles, which are of one video
                    sink.append(prediction)

    assert error_of(write) == f"CannotWrite: [Errno 27] File too large: '{target}'"
    assert target.stat().st_size == 4096  # what fits


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_device_is_named() -> None:
    with pytest.raises(CannotWrite, match="/dev/full"), open_rows("/dev/full") as file:
        file.write("a\n")
    with pytest.raises(CannotWrite, match="/dev/full"), write_atomically("/dev/full") as part:
        part.write_text("a")


def test_a_file_of_elan_is_not_tried_twice(tiny_videos, tmp_path: Path) -> None:
    """The second time it would be said to be of another run."""
    video = tiny_videos.root / "val_0.mp4"
    target = tmp_path / "a.eaf"

    def write() -> None:
        with SINKS["elan"].load()(target, SinkOptions()) as sink:
            sink.begin(Begun(Source(str(video))))
            for number in range(100):
                span = (number / 100, number / 100 + 0.01)
                sink.append(predict(video, 0, "segments", seconds=span))
            sink.end()

    error = error_of(write)
    assert error == f"CannotWrite: [Errno 27] File too large: '{target}'"


def write_nowhere(path: str) -> None:
    raise CannotWrite(28, "No space left on device", "results/a.mp4")


def test_no_video_is_to_blame() -> None:
    """``data prepare`` called all videos bad for which there was no space."""
    with pytest.raises(CannotWrite, match="results/a.mp4"):
        find_faults(write_nowhere, [("a.mp4",), ("b.mp4",)], workers=1)
