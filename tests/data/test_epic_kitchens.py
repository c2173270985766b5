from pathlib import Path

import cv2
import numpy as np
import pytest
from torch import Tensor

from mmvidformer.registry import DATASETS

pytestmark = pytest.mark.usefixtures("scope")

HEADER = "narration_id,participant_id,video_id,start_frame,stop_frame,verb_class,noun_class"
SAMPLE = [
    {"type": "SampleFrames", "clip_len": 4, "frame_interval": 1, "num_clips": 1, "test_mode": True},
]
PACK = [{"type": "FormatShape", "input_format": "NCTHW"}, {"type": "PackActionInputs"}]


def levels(inputs: Tensor) -> list[int]:
    """Number of each frame, 5 gray levels apart; MPEG-4 loses up to 4."""
    return [int(frame.float().mean() + 4) // 5 for frame in inputs[0].permute(1, 0, 2, 3)]


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    """A video of 40 frames whose gray level encodes the frame, its frames as images, and a csv."""
    writer = cv2.VideoWriter(
        str(tmp_path / "P01_01.mp4"), cv2.VideoWriter_fourcc(*"mp4v"), 25, (64, 64)
    )
    (tmp_path / "P01_01").mkdir()
    for i in range(40):
        frame = np.full((64, 64, 3), 5 * i, np.uint8)
        writer.write(frame)
        cv2.imwrite(str(tmp_path / "P01_01" / f"frame_{i + 1:010}.jpg"), frame)
    writer.release()
    (tmp_path / "a.csv").write_text(
        f"{HEADER}\nP01_01_0,P01,P01_01,11,14,3,7\nP01_01_1,P01,P01_01,21,60,0,299\n"
    )
    return tmp_path


def over_videos(root: Path, **kwargs) -> object:
    pipeline = [
        {"type": "DecordInit"},
        {"type": "mmvidformer.LimitToSegment"},
        *SAMPLE,
        {"type": "DecordDecode"},
        *PACK,
    ]
    return DATASETS.build(
        {
            "type": "mmvidformer.EpicKitchensDataset",
            "ann_file": str(root / "a.csv"),
            "pipeline": pipeline,
            "data_prefix": {"video": str(root)},
            "name": "{video_id}.mp4",
            **kwargs,
        }
    )


def over_frames(root: Path) -> object:
    return over_videos(
        root,
        data_prefix={"img": str(root)},
        name="{video_id}",
        pipeline=[*SAMPLE, {"type": "RawFrameDecode"}, *PACK],
    )


@pytest.mark.parametrize("make", [over_videos, over_frames])
def test_only_the_segment_is_decoded(kitchen: Path, make) -> None:
    dataset = make(kitchen)
    assert len(dataset) == 2
    first = dataset[0]
    assert levels(first["inputs"]) == [10, 11, 12, 13]
    assert first["data_samples"].gt_label.tolist() == [7, 3]


@pytest.mark.parametrize("frames", ["27,34", "11,14"])
def test_segments_of_videos_are_found_by_their_times(kitchen: Path, frames: str) -> None:
    """The file has 25 frames per second; the official frames of the annotation 60, or 25."""
    header = HEADER.replace("start_frame", "start_timestamp,stop_timestamp,start_frame")
    times = "00:00:00.44,00:00:00.56"
    (kitchen / "a.csv").write_text(f"{header}\nx,P01,P01_01,{times},{frames},3,7\n")
    assert levels(over_videos(kitchen)[0]["inputs"]) == [10, 11, 12, 13]


def test_segments_are_cut_at_the_end_of_the_video(kitchen: Path) -> None:
    shown = levels(over_videos(kitchen)[1]["inputs"])
    assert shown == [28, 29, 30, 31]  # the middle of frames 20 to 39


def test_official_paths_are_the_default(kitchen: Path) -> None:
    info = over_videos(kitchen, name=None).get_data_info(0)
    assert info["filename"] == str(kitchen / "P01" / "videos" / "P01_01.MP4")


def test_motion_dataset(tmp_path: Path) -> None:
    from lab.synthetic.sequences import SequencesSpec

    spec = SequencesSpec(train=1, val=1, test=1, actions=4)
    spec.write(tmp_path)
    dataset = over_videos(
        tmp_path, ann_file=str(tmp_path / "train.csv"), name="train/{video_id}.mp4"
    )
    labels = [dataset[i]["data_samples"].gt_label.tolist() for i in range(4)]
    assert labels == [[noun, verb] for verb, noun in spec.script(spec.clips("train")[0])[0]]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("id,video\n1,2\n", r"a\.csv, line 1 has no column narration_id"),
        (f"{HEADER}\nx,P01,P01_01,1,5,0,0\ny,P01,P01_01,9,5,0,0\n", r"line 3: frames 9 to 5"),
        (
            f"{HEADER}\nx,P01,P01_01,one,5,0,0\n",
            r"line 2: start_frame is 'one', not a whole number",
        ),
    ],
)
def test_invalid_annotations(kitchen: Path, content: str, match: str) -> None:
    (kitchen / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=match):
        over_videos(kitchen)


def test_further_fields_are_ignored(kitchen: Path) -> None:
    (kitchen / "a.csv").write_text(f"{HEADER}\nx,P01,P01_01,1,5,0,0,more\n")
    assert len(over_videos(kitchen)) == 1


def test_unknown_column_in_the_name(kitchen: Path) -> None:
    with pytest.raises(ValueError, match=r"line 2: no column 'kitchen' for the name"):
        over_videos(kitchen, name="{kitchen}/{video_id}.mp4")


def test_invalid_prefix(kitchen: Path) -> None:
    with pytest.raises(ValueError, match=r"must have one of .'video', 'img'.,"):
        over_videos(kitchen, data_prefix={})
