"""Fixtures of the tests of the engine; see ``toys``."""

import copy
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.runner import Runner

from tests.engine.toys import Numbers, run_group, toy_runner


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., Runner]:
    """Build a toy runner in a folder below ``tmp_path``."""
    count = itertools.count()

    def build(folder: str = "run", **changes) -> Runner:
        name = f"{tmp_path.name}_{folder}_{next(count)}"
        return toy_runner(tmp_path / folder, name, **changes)

    build.dataset = Numbers()
    return build


@pytest.fixture
def in_processes(tmp_path: Path) -> Callable:
    """Call a function of a module in a gloo group of n processes; returns the results by rank."""
    calls = itertools.count()
    return lambda n, function, *args: run_group(n, function, tmp_path / f"call{next(calls)}", args)


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Make a config of four videos, two classes and clips of 4 x 32 x 32."""
    monkeypatch.chdir(tmp_path)
    names = [f"{letter}.mp4" for letter in "abcd"]

    def make(lines: str | None = None, **changes: object) -> Config:
        for name in names:
            Path(name).write_bytes(b"x")
        default = "".join(f"{name} {i % 2}\n" for i, name in enumerate(names))
        Path("list.txt").write_text(default if lines is None else lines)
        cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
        cfg.model.cls_head.num_classes = 2
        cfg.work_dir = str(tmp_path / "work")
        for split in ("train", "val", "test"):
            dataset = cfg[f"{split}_dataloader"].dataset
            dataset.ann_file, dataset.data_prefix = "list.txt", dict(video=str(tmp_path))
        cfg.merge_from_dict(copy.deepcopy(changes))  # it consumes _delete_
        return cfg

    return make
