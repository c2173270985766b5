"""Fixtures of the tests of data sets."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mmengine.registry import DefaultScope

from tests.data.shard_lists import LISTS, NAMES, PIPELINE
from tests.video.toys import write, write_clock


@pytest.fixture
def scope() -> Iterator[None]:
    """As in a config of MMAction2."""
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


@pytest.fixture
def videos(tmp_path):
    """A folder with three videos, of constant and of variable rate."""
    root = tmp_path / "videos"
    (root / "deep").mkdir(parents=True)
    write(root / "a.mp4")
    write(root / "deep" / "b.mkv")
    write_clock(root / "c.mp4")
    return root


@pytest.fixture
def annotate(videos):
    """Writes the list of a task, and returns it with the config of its dataset."""

    def annotate(task: str):
        suffix, lines, options = LISTS[task]
        paths = ["a.mp4", "deep/b.mkv", "c.mp4"]
        if task == "boxes":  # names without folder and suffix
            paths = ["a", "b", "c"]
        rows = iter(paths)
        filled = [line.format(next(rows)) if "{}" in line else line for line in lines]
        file = videos / f"train.{suffix}"
        file.write_text("\n".join(filled) + "\n")
        if task != "classes":
            names = [] if task == "number" else NAMES
            (videos / "classes.txt").write_text("".join(f"{name}\n" for name in names))
            options = {**options, "metainfo": dict(classes=names)}
        prefix = dict(video=str(videos))
        return file, dict(options, ann_file=str(file), data_prefix=prefix, pipeline=PIPELINE)

    return annotate


@pytest.fixture
def folder(tiny_videos, tmp_path: Path) -> Path:
    """A folder with the videos t.mp4 and "u v.mp4"."""
    for number, name in enumerate(("t.mp4", "u v.mp4")):
        (tmp_path / name).symlink_to(tiny_videos.root / f"val_{number}.mp4")
    return tmp_path
