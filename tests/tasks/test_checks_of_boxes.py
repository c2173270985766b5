"""Checks of boxes before lists are written."""

import json
from pathlib import Path

import pytest

from mmvidformer.data.importers import open_annotations
from mmvidformer.tasks.checks import find_annotation_faults
from mmvidformer.tasks.datasets import BoxDataset
from mmvidformer.tasks.lists import split_annotations

BOXES = "val_0,1,0,0,1,1,1\nval_1,1,0,0,1,1,1\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            BOXES.replace("1,1,1\n", "1,1,7\n", 1),
            "line 1: label must be a class or in 1 to 1, got 7",
        ),
        (f"{BOXES}val_1,1,0,0,1,1\n", "line 3: label is empty"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_boxes_are_checked_before_lists_are_written(folder, text, error, check) -> None:
    (folder / "all.csv").write_text(text)
    (folder / "classes.txt").write_text("walk\n")
    for _ in range(2):
        with pytest.raises(ValueError, match=error):
            split_annotations(
                open_annotations(folder / "all.csv"), "boxes", folder, 0, 0.5, check=check
            )
    assert not (folder / "train.csv").exists()
    assert error in "".join(find_annotation_faults(open_annotations(folder / "all.csv", folder))[0])


def test_two_files_of_one_name_are_refused(folder: Path, tiny_videos) -> None:
    """Where the name is asked for."""
    (folder / "more").mkdir()
    (folder / "more" / "val_0.mov").symlink_to(tiny_videos.root / "val_2.mp4")
    (folder / "classes.txt").write_text("walk\n")
    (folder / "all.csv").write_text(BOXES)
    twice = r"two files have the name 'val_0': \S+val_0.mov and \S+val_0.mp4"
    options = dict(data_prefix=dict(video=str(folder)), metainfo=dict(classes=["walk"]))
    with pytest.raises(ValueError, match=twice):
        BoxDataset(str(folder / "all.csv"), [], **options)
    (fault,) = find_annotation_faults(open_annotations(folder / "all.csv", folder))[0]
    assert "two files have the name 'val_0'" in fault
    video = {"subset": "training", "annotations": [{"segment": [0, 1], "label": "run"}]}
    (folder / "anet.json").write_text(json.dumps({"database": {"v_val_0": video}}))
    with pytest.raises(ValueError, match="two files have the name 'v_val_0'"):
        split_annotations(open_annotations(folder / "anet.json"), "segments", folder / "lists")
    (folder / "all.csv").write_text(BOXES.replace("val_0", "val_1"))
    assert len(BoxDataset(str(folder / "all.csv"), [], **options)) == 1


def test_names_of_boxes_are_exact(folder: Path) -> None:
    """As in training: only ActivityNet's files may have v_ before the name."""
    (folder / "all.csv").write_text("v_val_0,1,0,0,1,1,1\n")
    (fault,) = find_annotation_faults(open_annotations(folder / "all.csv", folder))[0]
    assert fault.endswith(f"video {folder / 'v_val_0'}.mp4 does not exist")
