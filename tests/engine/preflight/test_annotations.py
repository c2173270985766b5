"""Wrong lists are found before the first step; what works is not."""

import re
import tracemalloc

import pytest

from mmvidformer.engine.preflight import check
from tests.engine.preflight.setups import DATASET, config, error, warning


def test_nothing_is_wrong(tmp_path):
    assert check(config(tmp_path)) == ([], [])


LINES = {
    "no_label": ("a.mp4 0\nb.mp4\n", "line 2: label must be in 0 to 1 .*got -1.*without label"),
    "blank_in_name": ("a b.mp4 0\n", r"line 1: must be .*PATH LABEL.* delimiter ' ', got 'a b"),
    "word": ("a.mp4 zero\n", "line 1: must be UTF-8 text of 2 columns .*got 'a.mp4 zero'"),
    "two_signs": ("a.mp4 0\na.mp4 --1\n", "line 2: must be .*got 'a.mp4 --1'"),
    "power": ("a.mp4 \u00b2\n", "line 1: must be .*got 'a.mp4 \u00b2'"),
    "mark": ("\ufeffa.mp4 0\n", r"list\.txt begins with a byte order mark"),
    "empty_file": ("", r"list\.txt has no samples"),
    "too_high": (
        "a.mp4 0\nb.mp4 2\nc.mp4 7\n",
        r"line 2: label must be in 0 to 1 \(model.cls_head.num_classes is 2\), got 2; 2 of 3 "
        "labels are wrong, they are 0 to 7",
    ),
    "from_one": ("a.mp4 1\nb.mp4 2\n", "line 2: label .* got 2; .* they are 1 to 2"),
    "negative": ("a.mp4 0\nb.mp4 -2\n", "line 2: label must be in 0 to 1 .* got -2"),
    "missing": (
        "a.mp4 0\nx.mp4 0\ny.mp4 1\n",
        r"line 2: 2 of 3 files are missing .*, the first is .*x\.mp4; .*data check",
    ),
    "extension": ("a.avi 0\n", r"1 of 1 files are missing.*a\.avi, but .*a\.mp4 exists"),
    "folder": ("train/a.mp4 0\n", r"train/a\.mp4, but .*a\.mp4 exists"),
}


@pytest.mark.parametrize("name", LINES)
def test_a_wrong_line_is_named_by_its_number(tmp_path, name):
    lines, message = LINES[name]
    assert re.search(message, error(config(tmp_path, lines)))


def test_a_list_must_be_utf8(tmp_path):
    cfg = config(tmp_path)
    (tmp_path / "list.txt").write_bytes(b"a.mp4 0\n\xe9.mp4 0\n")
    assert "list.txt, line 2: must be UTF-8 text" in error(cfg)


def test_an_empty_line_has_neither_label_nor_file(tmp_path):
    errors, warnings = check(config(tmp_path, "a.mp4 0\n\nb.mp4 1\n"))
    assert "line 2: label must be in 0 to 1" in errors[0] and "line 2: 1 of 3 files" in errors[1]
    assert len(errors) == 2 and warnings == []


def test_a_list_is_a_file(tmp_path):
    assert str(tmp_path) in error(config(tmp_path, **{f"{DATASET}.ann_file": str(tmp_path)}))


def test_a_list_of_old_macs_is_read(tmp_path):
    """MMAction2 reads it too."""
    assert check(config(tmp_path, "a.mp4 0\rb.mp4 1\r")) == ([], [])


def test_a_test_needs_no_labels(tmp_path):
    lines = "a.mp4\nb.mp4\n"
    assert "got -1 (a line without label); 2 of 2" in error(config(tmp_path, lines))
    cfg = config(tmp_path, lines)
    cfg.test_dataloader = cfg.pop("train_dataloader")
    assert check(cfg) == ([], [])


WORKS = {
    "oversampling": (
        "a.mp4 0\nb.mp4 1\na.mp4 0\n",
        r"line 3: .*a\.mp4 is also in .*line 1, with the",
    ),
    "contradiction": (
        "a.mp4 0\na.mp4 1\n",
        r"line 2: .*also in .*line 1, with another label; 1 such",
    ),
    "dots": ("a.mp4 0\n../{root}/b.mp4 0\n", None),
    "outside": (
        "a.mp4 0\n../c.mp4 0\n",
        r"line 2: .*\.\./c\.mp4 is outside of data_prefix .*; 1 of 2",
    ),
    "absolute": ("{outside}/c.mp4 0\n", r"line 1: .*c\.mp4 is outside of data_prefix"),
    "absolute_inside": ("{inside}/a.mp4 0\n", None),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_works_is_a_warning_at_most(tmp_path, name):
    lines, message = WORKS[name]
    root = tmp_path / "data"
    root.mkdir()
    (tmp_path / "c.mp4").write_bytes(b"x")
    lines = lines.format(root=root.name, inside=root, outside=tmp_path)
    if message is None:
        assert check(config(root, lines)) == ([], [])
    else:
        assert re.search(message, warning(config(root, lines)))


def test_without_a_prefix_paths_are_as_they_are(tmp_path):
    cfg = config(tmp_path, f"{tmp_path}/a.mp4 0\n", **{f"{DATASET}.data_prefix": dict(video="")})
    assert check(cfg) == ([], [])


def test_a_wrong_prefix_is_named_with_the_right_path(tmp_path):
    cfg = config(tmp_path, **{f"{DATASET}.data_prefix.video": str(tmp_path / "videos")})
    assert re.search(
        rf"line 1: 4 of 4 files are missing .*videos/a\.mp4, but {tmp_path}/a\.mp4 exists",
        error(cfg),
    )


@pytest.mark.parametrize(("share", "found"), [(0.5, 0), (0.2, 1)])
@pytest.mark.parametrize("where", ["dataset", "hook"])
def test_some_files_may_be_missing_if_bad_videos_are_replaced(tmp_path, share, found, where):
    policy = dict(on_bad_video="resample", max_bad_share=share)
    cfg = config(tmp_path, "a.mp4 0\nx.mp4 0\n")
    if where == "hook":
        cfg.bad_videos = policy
    else:
        inner = cfg.train_dataloader.dataset
        cfg.train_dataloader.dataset = dict(type="SafeDataset", dataset=inner, **policy)
    assert len(check(cfg)[0]) == found


def test_each_task_of_the_head_needs_a_label(tmp_path):
    cfg = config(tmp_path)
    tasks = dict(noun=2, verb=2)
    cfg.model.cls_head = dict(type="mmvidformer.MultiTaskHead", tasks=tasks, in_channels=16)
    assert re.search(r"line 1: a sample must have one label per task .*\(2\), got 1", error(cfg))


def test_a_large_list_needs_little_memory(tmp_path):
    """A fifth of what 100,000 videos may need, 100 MB."""
    lines = []
    for number in range(20_000):
        folder = f"class_{number % 100:03}"
        if number < 100:
            (tmp_path / folder).mkdir()
        name = f"{folder}/video_{number:08}_000010_000020.mp4"
        (tmp_path / name).touch()
        lines.append(f"{name} {number % 2}\n")
    cfg = config(tmp_path, "".join(lines))
    assert check(cfg) == ([], [])  # and imports
    tracemalloc.start()
    check(cfg)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
