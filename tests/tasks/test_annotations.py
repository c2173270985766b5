"""Annotations in csv files: numbers of videos, and classes of spans of time."""

import json

import numpy as np
import pytest
import torch

from mmvidformer.data.importers import open_annotations
from mmvidformer.finetune.balance import BalancedSampler, class_weights
from mmvidformer.tasks.annotations import read_spans
from mmvidformer.tasks.checks import find_annotation_faults
from mmvidformer.tasks.datasets import SpanDataset, ValueDataset
from mmvidformer.tasks.lists import read_task_lists, split_annotations
from mmvidformer.tasks.reading import unknown_class
from mmvidformer.tasks.transforms import CoverFrames, LabelFrames


@pytest.fixture
def write(tmp_path):
    """Write rows, separated by spaces, to a csv file."""

    def write(*rows: str, name: str = "train.csv"):
        path = tmp_path / name
        path.write_text("".join(f"{row.replace(' ', ',')}\n" for row in rows))
        return path

    return write


def test_values(write) -> None:
    file = write("video speed count", "a.mp4 1.5 3", "b/c.mp4 -2 0")
    dataset = ValueDataset(str(file), [], data_prefix=dict(video="root"), serialize_data=False)
    rows = [dataset.get_data_info(i) for i in range(2)]
    assert [row["filename"] for row in rows] == ["root/a.mp4", "root/b/c.mp4"]
    torch.testing.assert_close(rows[1]["label"], torch.tensor([-2.0, 0.0]))


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (["video speed", "a.mp4 fast"], "line 2: speed must be a number, got 'fast'"),
        (["video speed", "a.mp4 nan"], "line 2: speed must be a number, got 'nan'"),
        (["video speed", "a.mp4 1", "a.mp4 2"], "line 3: a.mp4 is already in .*line 2"),
        (["video split", "a.mp4 train"], "must have a column of values beside video"),
        (["name speed", "a.mp4 1"], "has no column video"),
    ],
)
def test_wrong_values(write, rows, error) -> None:
    with pytest.raises(ValueError, match=error):
        ValueDataset(str(write(*rows)), [])


@pytest.mark.parametrize(
    ("path", "video"),
    [
        ("day 1\\a.mp4", "day 1/a.mp4"),
        ("C:\\Users\\me\\b.mp4", "b.mp4"),
        ("C:\\Users\\me\\missing.mp4", "C:/Users/me/missing.mp4"),
        ("c\\d.mp4", "c\\d.mp4"),
    ],
)
def test_paths_of_windows(path, video, tmp_path) -> None:
    (tmp_path / "day 1").mkdir()
    for name in ("day 1/a.mp4", "b.mp4", "c\\d.mp4"):  # the last one is no folder here
        (tmp_path / name).touch()
    file = tmp_path / "train.csv"
    file.write_text(f"video,start,end,label\n{path},00:01,00:02.5,up\n")
    ((name, (span,)),) = read_spans(file).items()
    assert (name, span.start, span.end) == (video, 1, 2.5)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("a.mp4 2 1 up", "line 3: start must be at least 0 and below end, got 2 to 1"),
        ("a.mp4 -1 0 up", "line 3: start must be at least 0 and below end, got -1 to 0"),
        ("a.mp4 1 2 left", "line 3: starts at 1 s, before 1.5 s, the end of .*line 2"),
        ("a.mp4 3 x up", "line 3: end must be a number, got 'x'"),
        ("a.mp4 3 4 ", "line 3: label is empty"),
        ("a.mp4 3 4 right", "line 3: 'right' is no class; they are up, left"),
    ],
)
def test_wrong_spans(write, row, error) -> None:
    file = write("video start end label", "a.mp4 0.5 1.5 up", row)
    with pytest.raises(ValueError, match=error):
        SpanDataset(str(file), [], metainfo=dict(classes=["up", "left"]))


def test_classes_of_frames(write) -> None:
    """Frame i at 10 fps shows the time from i / 10 s to (i + 1) / 10 s."""
    file = write("video start end label", "b.mp4 0.5 1 left", "b.mp4 0.2 0.4 up", "a.mp4   ")
    dataset = SpanDataset(
        str(file), [LabelFrames()], metainfo=dict(classes=["up", "left", "background"])
    )
    assert len(dataset) == 2 and dataset.get_data_info(1)["spans"].shape == (0, 3)
    info = {**dataset.get_data_info(0), "frame_inds": np.arange(11), "avg_fps": 10.0}
    labels = LabelFrames()(info)["label"]
    assert labels.tolist() == [2, 2, 0, 0, 2, 1, 1, 1, 1, 1, 2]
    dataset = SpanDataset(str(file), [], metainfo=dict(classes=["up", "left"]))
    info = {**dataset.get_data_info(0), "frame_inds": np.array([0, 2]), "avg_fps": 10.0}
    assert LabelFrames()(info)["label"].tolist() == [-1, 0]


@pytest.mark.parametrize(
    ("total", "options", "starts"),
    [
        (8, {}, [0]),
        (5, {}, [0]),
        (16, {}, [0, 4, 8]),
        (18, {}, [0, 4, 8, 10]),
        (16, dict(overlap=0), [0, 8]),
        (18, dict(overlap=0), [0, 8, 16]),  # clips follow one another
        (24, dict(target_fps=10), [0, 8]),  # of 20: every 4th frame, the last clip at frame 8
    ],
)
def test_clips_cover_a_video(total, options, starts) -> None:
    sampler = CoverFrames(4, frame_interval=2, test_mode=True, **options)
    found = sampler(dict(total_frames=total, avg_fps=20.0, start_index=0))
    clips = found["frame_inds"].reshape(found["num_clips"], 4)
    assert clips[:, 0].tolist() == starts
    assert found["frame_step"] == (4 if options.get("target_fps") else 2)
    step = int(found["frame_step"])
    assert clips[-1, -1] == min(starts[-1] + 3 * step, total - 1)
    assert total - clips.max() <= step  # no frame is left out


def test_a_random_clip_in_training() -> None:
    np.random.seed(0)
    sampler = CoverFrames(4, frame_interval=2)
    info = dict(total_frames=20, avg_fps=20.0, start_index=0)
    firsts = {int(sampler(dict(info))["frame_inds"][0]) for _ in range(100)}
    assert firsts == {0, 2, 4, 6, 8, 10, 12}
    with pytest.raises(ValueError, match="overlap must be at least 0 and below 1, got 1"):
        CoverFrames(4, overlap=1)


def test_a_csv_file_is_split_by_video(write, tmp_path) -> None:
    rows = [f"{v}.mp4 {i} {i + 1} up" for v in "abcdefghij" for i in range(2)]
    file = write("video start end label", *rows, name="all.csv")
    lists = split_annotations(
        open_annotations(file), "frames", tmp_path / "out", val=0.2, test=0.1, check=False
    )
    assert lists.classes == ("up", "background")
    assert lists.counts == {"train": 7, "val": 2, "test": 1}
    found = [read_spans(lists.root / f"{split}.csv") for split in lists.counts]
    assert sorted(video for one in found for video in one) == [
        str(tmp_path / f"{v}.mp4") for v in "abcdefghij"
    ]
    assert all(len(spans) == 2 for one in found for spans in one.values())
    again = split_annotations(
        open_annotations(file), "frames", tmp_path / "two", val=0.2, test=0.1, check=False
    )
    assert (again.root / "val.csv").read_text() == (lists.root / "val.csv").read_text()
    with pytest.raises(FileExistsError, match="--force overwrites them"):
        split_annotations(open_annotations(file), "frames", tmp_path / "out")


def test_labels_become_the_lists_of_mmaction2(write, tmp_path) -> None:
    rows = ["a.mp4 up;fast train", "b.mp4 up train", "b.mp4 slow train", "c.mp4  val"]
    file = write("video label split", *rows, name="all.csv")
    lists = split_annotations(open_annotations(file), "labels", tmp_path, check=False)
    assert lists.classes == ("fast", "slow", "up")
    assert (tmp_path / "train.txt").read_text() == "a.mp4 0 2\nb.mp4 1 2\n"
    assert (tmp_path / "val.txt").read_text() == "c.mp4\n"
    assert read_task_lists(tmp_path, "labels") == lists


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (["a.mp4 1 train", "a.mp4 2 val"], "line 3: a.mp4 is in two splits"),
        (["a.mp4 1 later"], "split must be train, val or test, got 'later'"),
        (["a.mp4 1 val"], "no video for training"),
        ([], "all.csv has no video for training"),
    ],
)
def test_wrong_splits(write, tmp_path, rows, error) -> None:
    file = write("video speed split", *rows, name="all.csv")
    with pytest.raises(ValueError, match=error):
        split_annotations(open_annotations(file), "number", tmp_path / "out", check=False)


def test_all_faults_are_listed(write, tiny_videos) -> None:
    rows = ["val_0.mp4 1 0.5 up", "val_0.mp4 0 1 ", "val_1.mp4 0 90 up", "none.mp4 0 1 up"]
    file = write("video start end label", *rows, "val_1.mp4 x 1 up")
    found = "\n".join(find_annotation_faults(open_annotations(file, tiny_videos.root))[0])
    late = "line 4: 90 s is after the end of val_1.mp4"
    for text in ("line 2: start", "line 3: label is empty", late, "line 6: start",
                 "none.mp4 does not exist"):  # fmt: skip
        assert text in found
    assert len(found.splitlines()) == 5
    assert len(find_annotation_faults(open_annotations(file, tiny_videos.root))[1]) == 2
    (file.parent / "classes.txt").write_text("left\n")
    known = find_annotation_faults(open_annotations(file, tiny_videos.root))[0]
    assert f"{file}, line 5: 'up' is no class; they are left" in known
    values = write("video speed", "val_0.mp4 x", "val_1.mp4 2")
    assert find_annotation_faults(open_annotations(values, tiny_videos.root))[0] == [
        f"{values}, line 2: speed must be a number, got 'x'"
    ]


def test_a_message_names_some_of_many_classes() -> None:
    names = iter([f"class {number}" for number in range(1000)])
    message = unknown_class("up", names, "list.csv, line 2")
    assert message.startswith("list.csv, line 2: 'up' is no class; they are class 0, class 1,")
    assert next(names) == "class 20"  # a file may have a fault in each line, and many classes


def test_classes_are_balanced() -> None:
    assert class_weights([30, 10, 0]) == pytest.approx([2 / 3, 2, 1], abs=1e-5)

    class Data:
        labels = [0] * 30 + [1] * 10
        reads = 0

        def __len__(self) -> int:
            return len(self.labels)

        def get_data_info(self, i: int) -> dict:
            self.reads += 1
            return {"label": self.labels[i]}

    sampler = BalancedSampler(Data(), seed=0)
    drawn = []
    for epoch in range(50):
        sampler.set_epoch(epoch)
        drawn += [Data.labels[i] for i in sampler]
    assert len(drawn) == 50 * 40
    assert sampler.dataset.reads == 40  # in all epochs
    assert np.mean(drawn) == pytest.approx(0.5, abs=0.04)  # 3.6 standard deviations

    class Several(Data):
        labels = [torch.tensor([1.0, 0]), torch.tensor([1.0, 1]), torch.tensor([0.0, 0])]

    # Class 0 has two of three, class 1 one: weights 0.75 and 1.5.
    assert BalancedSampler(Several(), seed=0).weights.tolist() == [0.75, 1.5, 1.0]


@pytest.mark.slow
def test_more_samples_than_torch_draws_at_once_are_balanced() -> None:
    """``torch.multinomial`` takes at most 2^24."""
    count = 2**24 + 2
    sampler = BalancedSampler(range(count), seed=0)
    sampler.weights = torch.ones(count, dtype=torch.double)
    sampler.weights[-2:] = torch.tensor([0.0, count])
    drawn = sampler.order(torch.Generator().manual_seed(0))
    assert len(drawn) == count and drawn.min() < 1000
    assert (drawn == count - 1).double().mean().item() == pytest.approx(0.5, abs=1e-3)
    assert not (drawn == count - 2).any()


def test_activitynet(tiny_videos, tmp_path) -> None:
    """Names may lack the prefix of the files; videos that are missing are left out."""
    for name, source in (("v_one", "val_0"), ("two", "val_1")):
        (tmp_path / f"{name}.mp4").symlink_to(tiny_videos.root / f"{source}.mp4")
    span = {"segment": [0.5, 1.25], "label": "high jump"}
    video = {"duration": 2.0, "subset": "training", "annotations": [span, {**span, "label": "run"}]}
    other = {"duration": 2.0, "subset": "validation", "annotations": []}
    database = {"one": video, "two": other, "gone": video}
    file = tmp_path / "anet.json"
    file.write_text(json.dumps({"version": "1.3", "database": database}))
    lists = split_annotations(open_annotations(file), "segments", tmp_path / "lists")
    assert lists.classes == ("high jump", "run")
    assert lists.counts == {"train": 1, "val": 1, "test": 0}
    (spans,) = read_spans(lists.root / "train.csv", overlap=True).values()
    assert [one[:3] for one in spans] == [(0.5, 1.25, "high jump"), (0.5, 1.25, "run")]
    (spans,) = read_spans(lists.root / "val.csv").values()
    assert spans == []
    wrong = {**span, "segment": [9, 1]}
    file.write_text(
        json.dumps({"database": {**database, "one": {**video, "annotations": [wrong]}}})
    )
    faults, videos = find_annotation_faults(open_annotations(file, tmp_path), "segments")
    assert faults == [
        f"{file}, one: start must be at least 0 and below end, got 9 to 1",
        f"{file}, gone: it is not in {tmp_path}",
    ]
    assert sorted(path.name for path in videos.values()) == ["two.mp4", "v_one.mp4"]
    file.write_text("{}")
    with pytest.raises(ValueError, match="anet.json is no table, and of no tool that is known: "):
        split_annotations(open_annotations(file), "segments", tmp_path / "lists", force=True)
    file.write_text(json.dumps({"database": {"gone": video}}))
    with pytest.raises(ValueError, match="none of the 1 videos of .*anet.json is in "):
        split_annotations(open_annotations(file), "segments", tmp_path / "lists", force=True)


def test_a_file_needs_rows(write) -> None:
    file = write("video start end label")
    for kind, options in ((SpanDataset, dict(metainfo=dict(classes=["a"]))), (ValueDataset, {})):
        with pytest.raises(ValueError, match="train.csv has no rows"):
            kind(str(file), [], **options)
