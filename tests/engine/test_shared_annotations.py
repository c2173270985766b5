"""Annotations that the processes of a node parse once."""

import mmap
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from mmaction.datasets import RawframeDataset, VideoDataset
from mmengine.dataset import BaseDataset

from mmvidformer.datasets.epic_kitchens import COLUMNS, EpicKitchensDataset
from mmvidformer.datasets.single_class import ClassSubsetDataset
from mmvidformer.engine import shared_annotations as module
from mmvidformer.engine.shared_annotations import shared_annotations

ROOT = Path(__file__).parents[2]


@pytest.fixture
def several(monkeypatch):
    """One process that takes itself for one of two."""
    monkeypatch.setattr(module, "get_world_size", lambda: 2)
    monkeypatch.setattr(module, "broadcast_object_list", lambda names: None)


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """The annotation files that were parsed."""
    files: list[str] = []
    for kind in (VideoDataset, RawframeDataset, EpicKitchensDataset):
        original = kind.load_data_list

        def load(self, original=original):
            files.append(Path(self.ann_file).name)
            return original(self)

        monkeypatch.setattr(kind, "load_data_list", load)
    return files


@pytest.fixture
def lists(tmp_path) -> Path:
    (tmp_path / "videos.txt").write_text("".join(f"{i}.mp4 {i % 3}\n" for i in range(9)))
    (tmp_path / "frames.txt").write_text("".join(f"{i} {i + 1} {i % 3}\n" for i in range(9)))
    (tmp_path / "classes.txt").write_text("2\n0\n")
    row = ["P01_0", "P01_01", "3", "9", "1", "0", "P01"]
    header = ",".join([*COLUMNS, "participant_id"])
    (tmp_path / "epic.csv").write_text(f"{header}\n{','.join(row)}\n{','.join(row)}\n")
    return tmp_path


def builders(lists: Path) -> dict:
    name = {n: str(lists / n) for n in os.listdir(lists)}
    return {
        "videos.txt": lambda: VideoDataset(name["videos.txt"], pipeline=[]),
        "frames.txt": lambda: RawframeDataset(name["frames.txt"], pipeline=[]),
        "subset": lambda: ClassSubsetDataset(
            name["videos.txt"], pipeline=[], class_file=name["classes.txt"]
        ),
        "epic.csv": lambda: EpicKitchensDataset(
            name["epic.csv"], pipeline=[], data_prefix=dict(video="v")
        ),
    }


def samples(dataset) -> list[dict]:
    return [dataset.get_data_info(i) for i in range(len(dataset))]


@pytest.mark.parametrize("kind", ["videos.txt", "frames.txt", "subset", "epic.csv"])
def test_the_second_process_has_the_same_samples_without_parsing(several, parsed, lists, kind):
    build = builders(lists)[kind]
    alone = build()
    parsed.clear()
    with shared_annotations():
        first, second = build(), build()
        assert len(parsed) == 1
        for dataset in (first, second):
            np.testing.assert_equal(samples(dataset), samples(alone))
            assert vars(dataset).keys() == vars(alone).keys()
            assert dataset.metainfo == alone.metainfo and len(dataset) == len(alone)
            assert isinstance(dataset.data_bytes.base.base, mmap.mmap)
    np.testing.assert_equal(samples(second), samples(alone))  # after the folder is gone
    build()
    assert len(parsed) == 2


def test_other_arguments_are_parsed_again(several, parsed, lists):
    file = str(lists / "videos.txt")
    with shared_annotations():
        VideoDataset(file, pipeline=[])
        for change in (
            dict(test_mode=True),
            dict(data_prefix=dict(video="v")),
            dict(indices=3),
            dict(multi_class=True, num_classes=3),
        ):
            dataset = VideoDataset(file, pipeline=[], **change)
        assert dataset.get_data_info(1)["label"].tolist() == [0, 1, 0]
    assert len(parsed) == 5


def test_a_new_run_reads_a_changed_file(several, parsed, lists):
    file, sizes = lists / "videos.txt", []
    for text in ("a.mp4 0\n", "a.mp4 0\nb.mp4 1\n"):
        file.write_text(text)
        with shared_annotations():
            sizes.append(len(VideoDataset(str(file), pipeline=[])))
    assert sizes == [1, 2] and len(parsed) == 2


def test_the_folder_is_removed_and_parsing_is_as_before(several, lists, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = BaseDataset.full_init
    with pytest.raises(RuntimeError), shared_annotations():
        builders(lists)["videos.txt"]()
        (folder,) = tmp_path.glob("mmvidformer_*")
        assert any(folder.glob("*_state"))
        raise RuntimeError
    assert not folder.exists() and BaseDataset.full_init is before


def test_what_cannot_be_shared_is_parsed(several, parsed, lists, monkeypatch):
    build = builders(lists)["videos.txt"]
    with shared_annotations():
        local = [VideoDataset(str(lists / "videos.txt"), [], serialize_data=False) for _ in "ab"]
        assert samples(local[0]) == samples(local[1]) == samples(build())
        local = [
            VideoDataset(str(lists / "videos.txt"), [], metainfo={"f": lambda: 0}) for _ in "ab"
        ]
        assert samples(local[0]) == samples(local[1])
    assert len(parsed) == 5
    monkeypatch.setattr(np, "save", lambda *args: (_ for _ in ()).throw(OSError("disk is full")))
    with shared_annotations():
        assert samples(build()) == samples(build()) == samples(local[0])
    assert len(parsed) == 7


def test_another_process_may_end_early(several, parsed, lists, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with shared_annotations():
        shutil.rmtree(next(tmp_path.glob("mmvidformer_*")))
        assert len(builders(lists)["videos.txt"]()) == 9


def test_one_process_shares_nothing(parsed, lists):
    before = BaseDataset.full_init
    with shared_annotations():
        assert BaseDataset.full_init is before


CODE = """
import sys
from mmaction.datasets import VideoDataset
from mmengine.config import Config
from mmengine.dist import barrier
from mmvidformer.engine.process_group import join_processes
from mmvidformer.engine.shared_annotations import shared_annotations
load = VideoDataset.load_data_list
VideoDataset.load_data_list = lambda self: print("parsed", flush=True) or load(self)
join_processes(Config(dict(launcher="pytorch")))
with shared_annotations():
    dataset = VideoDataset(sys.argv[1], pipeline=[])
    print(len(dataset), dataset.get_data_info(5), flush=True)
    barrier()
"""


@pytest.mark.slow
def test_two_processes(lists, run, tmp_path):
    (tmp_path / "build.py").write_text(CODE)
    command = ["-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node"]
    process = run(sys.executable, *command, 2, tmp_path / "build.py", lists / "videos.txt")
    log = process.communicate(timeout=180)[0]
    assert process.returncode == 0, log
    assert log.count("parsed") == 1
    assert log.count("9 {'filename': '5.mp4', 'label': 2, 'sample_idx': 5") == 2
