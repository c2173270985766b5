"""Samples of shards of the lists of all tasks, against the same videos as files."""

import re

import pytest

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.data.shards import index as shards
from mmvidformer.data.shards.dataset import ShardedVideoDataset
from mmvidformer.registry import DATASETS
from mmvidformer.storage.resuming import hold
from mmvidformer.tasks.shards import shard_list
from mmvidformer.video import pyav_reader
from mmvidformer.video.errors import BadVideo
from tests.data.shard_lists import LISTS, PIPELINE, assert_equal, read
from tests.video import fake_torchcodec
from tests.video.numbered_videos import has_torchcodec

pytestmark = pytest.mark.usefixtures("scope")


def without_addresses(sample):
    return re.sub(" at 0x[0-9a-f]+", "", str(sample["data_samples"]))


@pytest.mark.parametrize("task", LISTS)
def test_samples_of_a_task_are_those_of_files(task, annotate, tmp_path) -> None:
    file, config = annotate(task)
    assert shard_list(file, tmp_path / "out", task, videos_per_shard=2) == {}
    files = DATASETS.build(config)
    kept = {key: config[key] for key in ("multi_class", "num_classes") if key in config}
    stored = DATASETS.build(
        dict(
            type="mmvidformer.ShardedVideoDataset",
            ann_file=str(tmp_path / "out"),
            pipeline=PIPELINE,
            task=task,
            **kept,
        )
    )
    assert len(files) == len(stored) == 3
    for number in range(3):
        wanted, got = files.get_data_info(number), stored.get_data_info(number)
        assert got.pop("stored_video").filename == got["filename"]
        assert wanted.pop("filename").endswith(got.pop("filename"))
        assert_equal(got, wanted)
        wanted, got = read(files, number), read(stored, number)
        assert_equal(got["inputs"], wanted["inputs"])
        assert without_addresses(got) == without_addresses(wanted)
    if task != "number":
        assert tuple(stored.metainfo.get("classes", ())) == tuple(files.metainfo.get("classes", ()))


def test_nothing_is_demuxed_and_only_the_video_is_read(annotate, tmp_path, monkeypatch) -> None:
    file, _ = annotate("classes")
    shard_list(file, tmp_path / "out")
    dataset = ShardedVideoDataset(str(tmp_path / "out"), PIPELINE)
    sizes = []
    monkeypatch.setattr(pyav_reader, "index_of", lambda source: pytest.fail("the index is known"))
    read_cached = shards.read_cached
    monkeypatch.setattr(
        shards, "read_cached", lambda *place: sizes.append(place[2]) or read_cached(*place)
    )
    for number in range(3):
        read(dataset, number)
    assert sizes == dataset.index.samples["size"].tolist()


@pytest.mark.parametrize("test_mode", [False, True])
def test_bad_videos_are_those_of_files(annotate, videos, tmp_path, test_mode) -> None:
    file, config = annotate("classes")
    content = (videos / "c.mp4").read_bytes()
    (videos / "c.mp4").write_bytes(content[: len(content) // 2])
    file.write_text("a.mp4 0\nc.mp4 1\ngone.mp4 2\nc.mp4 2\n")
    bad = shard_list(file, tmp_path / "out")
    assert [path.rpartition("/")[2] for path in bad] == ["c.mp4", "gone.mp4"]
    policy = dict(max_bad_share=1.0)
    files = SafeDataset({**config, "test_mode": test_mode}, **policy)
    stored = dict(type="mmvidformer.ShardedVideoDataset", ann_file=str(tmp_path / "out"))
    stored = SafeDataset({**stored, "pipeline": PIPELINE, "test_mode": test_mode}, **policy)
    for number in range(4):
        wanted, got = read(files, number), read(stored, number)
        assert_equal(got["inputs"], wanted["inputs"])
        assert got["data_samples"].gt_label == wanted["data_samples"].gt_label
        is_bad = number > 0 and test_mode
        assert ("bad_video" in got["data_samples"]) == is_bad
    stored.on_bad_video = "raise"
    with pytest.raises(BadVideo, match="gone.mp4: .*missing when the shards were written"):
        stored[2]


def test_of_a_long_video_only_a_part_is_read(annotate, tmp_path, monkeypatch) -> None:
    file, config = annotate("classes")
    shard_list(file, tmp_path / "out")
    files, stored = DATASETS.build(config), ShardedVideoDataset(str(tmp_path / "out"), PIPELINE)
    monkeypatch.setattr(shards, "MOST_BYTES", 100)
    monkeypatch.setattr(shards, "read_cached", lambda *place: pytest.fail("it is read as a whole"))
    for number in range(3):
        assert_equal(read(stored, number)["inputs"], read(files, number)["inputs"])


def test_torchcodec_reads_shards(annotate, tmp_path, monkeypatch) -> None:
    """A stand-in, where it is missing, shows at least what it is given."""
    if not has_torchcodec:
        fake_torchcodec.install(monkeypatch)
    file, config = annotate("classes")
    shard_list(file, tmp_path / "out")
    pipeline = [dict(PIPELINE[0], backend="torchcodec"), *PIPELINE[1:]]
    files = DATASETS.build({**config, "pipeline": pipeline})
    stored = ShardedVideoDataset(str(tmp_path / "out"), pipeline)
    for number in range(3):
        assert_equal(read(stored, number)["inputs"], read(files, number)["inputs"])


def test_one_process_writes_at_a_time(annotate, tmp_path) -> None:
    """The index of one list beside the videos of another would name wrong labels."""
    file, _ = annotate("classes")
    with hold(tmp_path / "out"), pytest.raises(FileExistsError, match="another process writes"):
        shard_list(file, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_shards_stay_if_no_video_of_the_new_list_exists(annotate, tmp_path) -> None:
    (file, _), out = annotate("classes"), tmp_path / "out"
    shard_list(file, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(ValueError, match="no video of the list exists, such as .*elsewhere"):
        shard_list(file, out, root=tmp_path / "elsewhere", force=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
