"""Annotations of frames, EPIC-Kitchens, anticipation and subsets."""

import re
from pathlib import Path

import pytest
from mmengine.config import Config

from mmvidformer.engine.preflight import check
from tests.engine.preflight.setups import MODEL, config, error, warning

FRAMES = {
    "columns": ("a 3 0\na x 1\n", r"line 2: must be .*3 columns \(FOLDER FRAMES LABEL\)"),
    "no_label": ("a 3\n", r"got -1 \(a line without label\); 1 of 1"),
    "no_frames": ("a 3 0\nb 0 1\n", "line 2: 1 of 2 files are missing or have no frames"),
    "label": ("a 3 0\nb 3 2\n", "line 2: label must be in 0 to 1"),
    "missing": ("a 3 0\nz 3 1\n", "line 2: 1 of 2 files are missing .*, the first is .*z;"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_lists_of_frames(tmp_path, name):
    lines, message = FRAMES[name]
    for folder in "ab":
        (tmp_path / folder).mkdir()
    cfg = config(tmp_path, lines)
    cfg.train_dataloader.dataset.type = "RawframeDataset"
    cfg.train_dataloader.dataset.data_prefix = dict(img=str(tmp_path))
    assert re.search(message, error(cfg))


HEADER = "narration_id,participant_id,video_id,start_frame,stop_frame,noun_class,verb_class\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEADER + "n,P01,v,1,9,3,0\n",
            r"line 2: label must be in 0 to 2 \(model\.cls_head\.tasks\.noun is 3",
        ),
        (
            HEADER + '\nm,P01,v,1,9,0,0\n"two\nlines",P01,v,1,9,0,2\n',
            r"list\.txt, line 5: label must be in 0 to 1 "
            r"\(model\.cls_head\.tasks\.verb is 2\), got 2; 1 of 2",
        ),
        (HEADER + "n,P01,v,1,9,900,0\n", r"list\.txt, line 2: noun_class 900 is not in 0 to 299"),
        ("a,b\n1,2\n", r"list\.txt has no column narration_id"),
        (
            HEADER + "n,P01,v,1,9,2,0\nm,P01,w,1,9,2,0\n",
            r"list\.txt, line 3: 1 of 2 files are missing .*, the first is .*w\.MP4",
        ),
    ],
    ids=["head", "later", "label", "columns", "missing"],
)
def test_epic_kitchens(tmp_path, text, message):
    assert re.search(message, error(kitchen(tmp_path, text)))


def test_a_segment_twice_is_a_warning(tmp_path):
    lines = "n,P01,v,1,9,2,0\nm,P01,v,1,9,2,0\nn,P01,v,5,9,2,1\n"
    message = warning(kitchen(tmp_path, HEADER + lines))
    assert re.search(r"list\.txt, line 4: n is also in .*list\.txt, line 2, with another", message)


def kitchen(root: Path, text: str) -> Config:
    """A config of EPIC-Kitchens with three nouns and two verbs."""
    cfg = config(root, text)
    cfg.train_dataloader.dataset.type = "mmvidformer.EpicKitchensDataset"
    tasks = dict(noun=3, verb=2)
    cfg.model.cls_head = dict(type="mmvidformer.MultiTaskHead", tasks=tasks, in_channels=16)
    (root / "P01" / "videos").mkdir(parents=True)
    (root / "P01" / "videos" / "v.MP4").write_bytes(b"x")
    return cfg


ACTIONS = "id,verb,noun\n0,0,1\n1,1,0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "7,v,30,60,0,1,0\n8,v,90,99,1,0,1\n",
            r"line 2: label must be in 0 to 0 \(model\.cls_head\.tasks\.action is 1",
        ),
        ("7,v,30,60,0,1,0\n8,v,90,99,0,1\n", r"line 2: action is None, not a whole number"),
        ("7,v,30,60,0,1,0\n8,w,90,99,0,1,0\n", r"line 2: 1 of 2 files are missing.*w\.mp4"),
    ],
    ids=["head", "columns", "missing"],
)
def test_anticipation(tmp_path, text, message):
    cfg = config(tmp_path, text)
    (tmp_path / "actions.csv").write_text(ACTIONS)
    (tmp_path / "v.mp4").write_bytes(b"x")
    cfg.train_dataloader.dataset = dict(
        type="mmvidformer.AnticipationDataset",
        ann_file=str(tmp_path / "list.txt"),
        action_file=str(tmp_path / "actions.csv"),
        data_prefix=dict(video=str(tmp_path)),
        name="{video_id}.mp4",
        pipeline=[dict(type="mmvidformer.ObserveBefore", num_steps=4)],
    )
    tasks = dict(action=1, noun=2, verb=2)  # as a saved config has them
    cfg.pop("model")  # which needs a recurrent neck
    cfg.model = dict(cls_head=dict(tasks=tasks))
    errors = [text for text in check(cfg)[0] if "list.txt" in text]
    assert len(errors) == 1 and re.search(r"list\.txt, " + message, errors[0])


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("7\n0\n5\n", r"list\.txt, entry 3: label must be in 0 to 1 .*, got 2"),
        ("7\n9\n", r"list\.txt has no videos of the classes \[9\] of .*classes\.txt"),
        ("7\n7\n", r"classes\.txt lists the class '7' twice"),
        ("run\n", r"classes\.txt: 'run' is no number and no name in metainfo"),
        (None, r"classes\.txt: No such file"),
        ("0\n5\n", None),
        ("6\n", r"entry 1: 1 of 1 files are missing"),
    ],
    ids=["too_many", "absent", "twice", "name", "no_file", "fits", "missing"],
)
def test_a_subset_is_checked_under_its_new_labels(tmp_path, classes, message):
    """Videos of other classes may be missing, and may have labels that the head does not have."""
    cfg = config(tmp_path, "a.mp4 7\nb.mp4 0\nx.mp4 6\nd.mp4 5\n")
    cfg.train_dataloader.dataset.type = "mmvidformer.ClassSubsetDataset"
    cfg.train_dataloader.dataset.class_file = str(tmp_path / "classes.txt")
    if classes is not None:
        (tmp_path / "classes.txt").write_text(classes)
    if message is None:
        assert check(cfg) == ([], [])
    else:
        assert re.search(message, error(cfg))


def test_files_elsewhere_are_not_looked_up(tmp_path):
    cfg = config(tmp_path, "x.mp4 0\n")
    cfg.train_dataloader.dataset.pipeline[0].io_backend = "petrel"
    assert "1 of 1 files are missing" in error(config(tmp_path, "x.mp4 0\n"))
    assert check(cfg) == ([], [])


def test_a_sample_with_several_labels_needs_a_head_for_them(tmp_path):
    cfg = config(tmp_path, "a.mp4 0 1\nb.mp4 1\n")
    cfg.train_dataloader.dataset.update(multi_class=True, num_classes=2)
    assert check(cfg) == ([], [])
    other = kitchen(tmp_path, HEADER + "n,P01,v,1,9,1,1\n")
    other.model.cls_head = MODEL["cls_head"]
    assert "line 2: a sample must have one label per task of model.cls_head (1), got 2" in error(
        other
    )
