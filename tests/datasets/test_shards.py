"""Shards of the lists of all tasks, against the same videos as files."""

import io
import json
import pickle
import re
import tarfile

import av
import numpy as np
import pytest
import torch

from mmvidformer.datasets.bad_videos import SafeDataset
from mmvidformer.datasets.shards import index as shards
from mmvidformer.datasets.shards.dataset import ShardedVideoDataset
from mmvidformer.datasets.shards.index import ShardIndex, WrongShards
from mmvidformer.datasets.shards.rows import read_row, write_row
from mmvidformer.registry import DATASETS
from mmvidformer.tasks.shards import shard_list
from mmvidformer.video import readers
from mmvidformer.video.errors import BadVideo
from mmvidformer.video.index import index_of
from mmvidformer.video.packed_index import pack_index, unpack_index
from tests.video.toys import PACK, write, write_clock

pytestmark = pytest.mark.usefixtures("scope")

PIPELINE = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=4, frame_interval=2),
    dict(type="mmvidformer.VideoDecode"),
    *PACK,
]
NAMES = ["red", "green", "dark blue"]
LISTS = {  # lines for three videos, and options of the dataset that reads them
    "classes": ("txt", ["{} 0", "{} 2", "{} 1"], dict(type="VideoDataset")),
    "labels": (
        "txt",
        ["{} 0", "{}", "{} 1 2"],
        dict(type="VideoDataset", multi_class=True, num_classes=3),
    ),
    "number": (
        "csv",
        ["video,level,size", "{},0.1,3", "{},2,4", "{},1e-7,5"],
        dict(type="mmvidformer.ValueDataset"),
    ),
    "frames": (
        "csv",
        ["video,start,end,label", "{},0.1,0.2,red", "{},0,0.3,green", "{},,,"],
        dict(type="mmvidformer.SpanDataset"),
    ),
    "segments": (
        "csv",
        ["video,start,end,label", "{},0.1,0.2,red", "{},0,0.3,green", "{},,,"],
        dict(type="mmvidformer.SpanDataset", overlap=True),
    ),
    "boxes": (
        "csv",
        ["{},0,0.1,0.2,0.5,0.6,1", "{},1,0,0,1,1,3", "{},0,0.25,0.1,0.9,0.8,2"],
        dict(type="mmvidformer.BoxDataset"),
    ),
}


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


def read(dataset, number):
    torch.manual_seed(number)
    np.random.seed(number)
    return dataset[number]


def assert_equal(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and torch.equal(one, other)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    else:
        assert one == other


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


def test_tar_files_are_those_of_webdataset(annotate, videos, tmp_path) -> None:
    file, _ = annotate("classes")
    shard_list(file, tmp_path / "out", videos_per_shard=2)
    with tarfile.open(tmp_path / "out" / "00000.tar") as tar:
        names = [f"{key:09d}.{end}" for key, end in ((0, "mp4"), (1, "mkv"))]
        assert tar.getnames() == [
            name for video in names for name in (video, f"{video[:9]}.json", f"{video[:9]}.cls")
        ]
        assert tar.extractfile(names[0]).read() == (videos / "a.mp4").read_bytes()
        index = ShardIndex(tmp_path / "out")
        places = {member.name: member.offset_data for member in tar.getmembers()}
        assert [places[name] for name in names] == index.samples["offset"][:2].tolist()
    webdataset = pytest.importorskip("webdataset", reason="the package webdataset is missing")
    pattern = str(tmp_path / "out" / "{00000..00001}.tar")
    samples = list(webdataset.WebDataset(pattern, shardshuffle=False).decode())
    assert [sample["cls"] for sample in samples] == [0, 2, 1] == index.labels.tolist()
    assert samples[1]["mkv"] == (videos / "deep" / "b.mkv").read_bytes()
    assert samples[1]["json"] == {"filename": "deep/b.mkv", "label": 2}


def test_nothing_is_demuxed_and_only_the_video_is_read(annotate, tmp_path, monkeypatch) -> None:
    file, _ = annotate("classes")
    shard_list(file, tmp_path / "out")
    dataset = ShardedVideoDataset(str(tmp_path / "out"), PIPELINE)
    sizes = []
    monkeypatch.setattr(readers, "index_of", lambda source: pytest.fail("the index is known"))
    read_cached = shards.read_cached
    monkeypatch.setattr(
        shards, "read_cached", lambda *place: sizes.append(place[2]) or read_cached(*place)
    )
    for number in range(3):
        read(dataset, number)
    assert sizes == dataset.index.samples["size"].tolist()


def test_a_worker_gets_an_address_whatever_the_length(annotate, tmp_path) -> None:
    file, _ = annotate("classes")
    file.write_text("a.mp4 0\n" * 5000)
    shard_list(file, tmp_path / "out")
    dataset = ShardedVideoDataset(str(tmp_path / "out"), PIPELINE)
    dataset[4999]
    copy = pickle.loads(content := pickle.dumps(dataset))
    assert len(content) < 4000 and len(copy) == 5000
    assert isinstance(copy.index.samples, np.memmap)
    assert_equal(read(copy, 7)["inputs"], read(dataset, 7)["inputs"])
    (video,) = (tmp_path / "out").glob("*.tar")
    assert video.stat().st_size < 1e6  # the video is there once


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


@pytest.mark.parametrize("name", ["still.mp4", "vfr.mp4", "a.avi", "a.mkv", "a.ts", "b.mkv"])
def test_a_packed_index_is_the_index(tmp_path, name) -> None:
    path = tmp_path / name
    if name == "vfr.mp4":
        write_clock(path)
    else:
        write(path, 1 if name == "still.mp4" else 40)
    index = index_of(io.BytesIO(path.read_bytes()))
    copy = unpack_index(content := pack_index(index))
    assert copy.length == index.length and copy.times.rate == index.times.rate
    np.testing.assert_array_equal(copy.keys, index.keys)
    for got, wanted in ((copy.stamps, index.stamps), (copy.times.starts, index.times.starts)):
        assert (got is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_array_equal(got, wanted)
    assert len(content) < 120
    for end in (3, 30, len(content) - 9):
        with pytest.raises(ValueError, match="damaged"):
            unpack_index(content[:end])


def test_rows_keep_types_and_bits_and_run_no_code() -> None:
    row = dict(
        filename="ä.mp4",
        spans=np.zeros((0, 3)),
        small=np.array([[0.1, 1e-45]], np.float32),
        label=torch.tensor([0.1, 2.0]),
        numbers=torch.tensor([1, 2]),
        background=-1,
        times=[0.1, None],
    )
    line = write_row(row)
    assert "\n" not in line
    assert_equal(read_row(line), row)
    with pytest.raises(TypeError, match="a row cannot hold .* object"):
        write_row(dict(x=object()))
    with pytest.raises(ValueError, match="cannot hold objects"):
        read_row('{"array": "|O", "shape": [1], "values": [1]}')


def test_wrong_shards_are_refused(annotate, tmp_path) -> None:
    file, _ = annotate("labels")
    out = tmp_path / "out"
    shard_list(file, out, "labels")
    with pytest.raises(FileExistsError, match="--force"):
        shard_list(file, out, "labels")
    for options, text in (
        (dict(task="number"), "rows of 'labels', not of 'number'"),
        (dict(metainfo=dict(classes=["x"])), "has 3 classes, such as red, .*, not the 1"),
    ):
        with pytest.raises(WrongShards, match=text):
            ShardedVideoDataset(str(out), PIPELINE, **options)
    for opener in (dict(type="DecordInit"), dict(type="mmvidformer.VideoInit", backend="decord")):
        with pytest.raises(WrongShards, match="opened by mmvidformer.VideoInit"):
            ShardedVideoDataset(str(out), [opener])
    with pytest.raises(FileNotFoundError):
        ShardedVideoDataset(str(tmp_path / "none"), PIPELINE)
    facts = json.loads((out / "index.json").read_text())
    for wrong, text in (
        ({**facts, "format": "x"}, "format 'x'"),
        ({"format": facts["format"]}, "KeyError"),
        ([], "TypeError"),
    ):
        (out / "index.json").write_text(json.dumps(wrong))
        with pytest.raises(WrongShards, match=text):
            ShardIndex(out)
    (out / "index.json").write_text(json.dumps({**facts, "samples": 4}))
    with pytest.raises(WrongShards, match="must have 4 samples"):
        len(ShardIndex(out).samples)


def test_torchcodec_reads_shards(annotate, tmp_path) -> None:
    pytest.importorskip("torchcodec")
    try:
        readers.READERS["torchcodec"](io.BytesIO())
    except ImportError as error:
        pytest.skip(str(error))
    except (RuntimeError, ValueError, av.FFmpegError):
        pass
    file, config = annotate("classes")
    shard_list(file, tmp_path / "out")
    pipeline = [dict(PIPELINE[0], backend="torchcodec"), *PIPELINE[1:]]
    files = DATASETS.build({**config, "pipeline": pipeline})
    stored = ShardedVideoDataset(str(tmp_path / "out"), pipeline)
    for number in range(3):
        assert_equal(read(stored, number)["inputs"], read(files, number)["inputs"])
