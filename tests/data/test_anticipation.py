"""Segments to anticipate, from images and videos, and what is wrong with their lists."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from mmengine.logging import MMLogger
from torch import Tensor

from lab.synthetic.render import write_video
from mmvidformer.registry import DATASETS

pytestmark = pytest.mark.usefixtures("scope")

ACTIONS = "id,verb,noun,action\n0,0,1,take cup\n1,1,1,wash cup\n2,1,0,wash pan\n"
# Actions start at 1.8 s, 0.2 s and 0.26 s, at 30 frames per second.
LISTED = " 00007, P01_01, 0054, 0060, 001, 000, 02\n8,P01_01,6,9,0,1,0\n9,P01_01,8,9,0,1,0\n"
OFFICIAL = (
    "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,verb_class,noun_class\n"
    "7,P01,P01_01,00:00:01.80,00:00:02.00,1,0\n8,P01,P01_01,00:00:00.20,00:00:00.30,0,1\n"
    "9,P01,P01_01,00:00:00.29,00:00:00.30,0,1\n"
)
OBSERVE = {"type": "mmvidformer.ObserveBefore", "num_steps": 4}
PACK = [
    {"type": "FormatShape", "input_format": "NCTHW"},
    {"type": "PackActionInputs", "meta_keys": ("narration_id",)},
]


def frame(number: int) -> np.ndarray:
    """A yellow RGB frame whose brightness encodes its number, from 1."""
    return np.full((64, 64, 3), (4 * number, 4 * number, 0), np.uint8)


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds of video at 30 frames per second, its frames as images, and csv files."""
    root = tmp_path_factory.mktemp("kitchen")
    (root / "P01_01").mkdir()
    for i in range(1, 61):
        cv2.imwrite(str(root / "P01_01" / f"frame_{i:010}.jpg"), frame(i)[..., ::-1])
    frames = np.stack([frame(i) for i in range(1, 61)])
    write_video(root / "P01_01.mp4", frames, fps=30)
    (root / "actions.csv").write_text(ACTIONS)
    (root / "listed.csv").write_text(LISTED)
    (root / "official.csv").write_text(OFFICIAL)
    return root


def build(root: Path, read: list[dict] | None = None, ann: str = "listed.csv", **kwargs) -> object:
    read = [OBSERVE, {"type": "RawFrameDecode"}] if read is None else read
    return DATASETS.build(
        {
            "type": "mmvidformer.AnticipationDataset",
            "ann_file": str(root / ann),
            "action_file": str(root / "actions.csv"),
            "pipeline": [*read, *PACK],
            "data_prefix": {"img": str(root)},
            "fps": 30,
            "name": "{video_id}",
            **kwargs,
        }
    )


def listed(folder: Path, lines: str) -> str:
    """Write a list of segments; gives its path."""
    (folder / "a.csv").write_text(lines)
    return str(folder / "a.csv")


def over_video(root: Path, **kwargs) -> object:
    return build(
        root,
        [{"type": "DecordInit"}, OBSERVE, {"type": "DecordDecode"}],
        data_prefix={"video": str(root)},
        fps=None,
        name="{video_id}.mp4",
        **kwargs,
    )


def levels(inputs: Tensor) -> list[int]:
    """Numbers of the frames; JPEG changes a brightness by less than 2."""
    red, green, blue = inputs[0].float().mean((2, 3))
    assert blue.max() < 8
    return ((red + green) / 8).round().int().tolist()


SEEN = [24, 31, 39, 46]  # floor((54 / 30 - m / 4) * 30) for m = 4 to 1


@pytest.mark.parametrize("make", [build, over_video])
def test_each_source_shows_the_frames_before_the_action(kitchen: Path, make: Callable) -> None:
    dataset = make(kitchen)
    assert len(dataset) == 1
    sample = dataset[0]
    assert levels(sample["inputs"]) == SEEN
    assert sample["data_samples"].narration_id == "7"
    assert sample["data_samples"].gt_label.tolist() == [1, 0, 2]


def test_segments_that_start_too_early_are_skipped(
    kitchen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    logger = SimpleNamespace(info=said.append, log=lambda *_: None)
    monkeypatch.setattr(MMLogger, "get_current_instance", lambda: logger)
    metainfo = build(kitchen).metainfo
    assert metainfo["actions"] == [(0, 1), (1, 1), (1, 0)]
    found = [(d["narration_id"], d["gt_label"].tolist()) for d in metainfo["discarded"]]
    assert found == [("8", [0, 1, 0]), ("9", [0, 1, 0])]
    assert "listed.csv: 1 segments; skipped 2 that no frame precedes" in said[0]


def test_frames_before_the_video_are_replaced_by_the_first_observed(
    kitchen: Path, tmp_path: Path
) -> None:
    ann = listed(tmp_path, "8,P01_01,9,12,0,1,0\n9,P01_01,19,20,0,1,0\n")
    dataset = build(kitchen, ann_file=ann)
    assert [levels(dataset[i]["inputs"]) for i in (0, 1)] == [[1, 1, 1, 1], [3, 3, 3, 11]]


def test_official_csv_gives_the_same_segments(kitchen: Path) -> None:
    listed, official = build(kitchen), build(kitchen, ann="official.csv")
    for key in ("narration_id", "action_start", "frame_dir"):
        assert listed.get_data_info(0)[key] == official.get_data_info(0)[key]
    assert official.get_data_info(0)["label"].tolist() == [1, 0, 2]
    assert [d["narration_id"] for d in official.metainfo["discarded"]] == ["8", "9"]


def test_times_are_rounded_as_in_rulstm_lists(kitchen: Path, tmp_path: Path) -> None:
    """P01_12_23 of EPIC-Kitchens-100 starts at 67.1 s, frame 2013 - 1 by floating point."""
    ann = listed(tmp_path, OFFICIAL + "P01_12_23,P01,P01_12,00:01:07.10,00:01:07.64,0,1\n")
    dataset = build(kitchen, ann_file=ann)
    assert dataset.get_data_info(1)["action_start"] == 2012 / 30


def test_test_sets_have_no_labels(kitchen: Path, tmp_path: Path) -> None:
    ann = listed(tmp_path, "7,P01_01,54,60\n8,P01_01,6,9\n")
    dataset = build(kitchen, ann_file=ann, test_mode=True)
    assert "gt_label" not in dataset[0]["data_samples"]
    assert dataset.metainfo["discarded"] == [{"narration_id": "8", "gt_label": None}]


def test_frames_at_another_rate(kitchen: Path) -> None:
    dataset = build(kitchen, fps=15)
    assert levels(dataset[0]["inputs"]) == [12, 15, 19, 23]  # floor((1.8 - m / 4) * 15)


def test_official_paths_are_the_default(kitchen: Path) -> None:
    info = build(kitchen, name=None).get_data_info(0)
    assert info["frame_dir"] == str(kitchen / "P01" / "rgb_frames" / "P01_01")


@pytest.mark.parametrize(
    ("ann", "match"),
    [
        ("7,P01_01,54,60,1,0\n", r"a\.csv, line 1: action is '', not a whole"),
        ("7,P01_01,54,60,1,0,2\n7,P01_01,x,60,1,0,2\n", r"line 2: start is 'x', not a whole"),
        ("7,P01_01,54,60,2,0,2\n", "line 1: .* has another action for verb 2 and noun 0, or none"),
        ("7,P01_01,54,60,1,0,3\n", "line 1: .*actions.csv has another action for verb 1"),
        ("7,P01_01,54,60,1,0,1\n", "actions.csv has another action for verb 1 and noun 0"),
        ("8,P01_01,6,9,0,1,0\n", "no frame precedes any segment"),
        ("", "no frame precedes any segment"),
        (OFFICIAL.replace("01.80", "1m80"), "line 2: start_timestamp is '00:00:1m80', not HH"),
        (
            OFFICIAL.replace(",0,1\n", ",0,0\n"),
            "line 3: .* action for verb 0 and noun 0, or none",
        ),
        (OFFICIAL.replace(",1,0\n", ",1,pan\n"), "line 2: noun_class is 'pan', not a whole"),
        (OFFICIAL.replace("narration_id", "id"), "line 2: no narration_id"),
    ],
)
def test_invalid_annotations(kitchen: Path, tmp_path: Path, ann: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        build(kitchen, ann_file=listed(tmp_path, ann))


@pytest.mark.parametrize(
    ("actions", "match"),
    [
        ("id,verb\n0,0\n", "has no column noun"),
        ("id,verb,noun\n0,0,1\n2,1,1\n", r"line 3: id is 2, expected 1"),
        ("id,verb,noun\n0,zero,1\n", r"line 2: verb is 'zero'"),
    ],
)
def test_invalid_lists_of_actions(kitchen: Path, tmp_path: Path, actions: str, match: str) -> None:
    (tmp_path / "actions.csv").write_text(actions)
    with pytest.raises(ValueError, match=match):
        build(kitchen, action_file=str(tmp_path / "actions.csv"))


def test_invalid_arguments(kitchen: Path) -> None:
    with pytest.raises(ValueError, match="must have an ObserveBefore"):
        build(kitchen, [{"type": "RawFrameDecode"}])
    with pytest.raises(ValueError, match="data_prefix must have one of .* got"):
        build(kitchen, data_prefix={"path": "x"})
    for prefix, fps in (("img", None), ("video", 30)):
        with pytest.raises(ValueError, match=f"frames need fps, and videos none, got fps={fps}"):
            build(kitchen, data_prefix={prefix: "x"}, fps=fps)
