"""Videos in which the number of a frame does not tell its time, in each task with seconds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.data.importers import open_annotations
from mmvidformer.data.transforms.sampling import LimitToSegment, ObserveBefore, ObserveFirst
from mmvidformer.tasks.checks import find_annotation_faults
from mmvidformer.tasks.transforms import CoverFrames, FramesAround, LabelFrames
from mmvidformer.video.errors import BadVideo
from tests.video.toys import BURST, VARIABLE, read_clock, shown_at, write, write_clock

pytestmark = pytest.mark.usefixtures("scope")

KEYS = ("frame_inds", "avg_fps", "total_frames")
PACK = [
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs", meta_keys=KEYS),
]
SPANS = "video,start,end,label\nv.mp4,0,1,run\n"
CLASSES = dict(metainfo=dict(classes=["run", "background"]))
EPIC = "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,stop_frame,"


def task(kind: str, annotations: str, *transforms: str, **options: object) -> dict:
    return dict(kind=kind, annotations=annotations, transforms=transforms, options=options)


TASKS = {
    "frames": task("SpanDataset", SPANS, "CoverFrames", "LabelFrames", **CLASSES),
    "segments": task("SpanDataset", SPANS, "CoverFrames", **CLASSES),
    "own sampler": task("SpanDataset", SPANS, "SpanFrames", "LabelFrames", **CLASSES),
    "boxes": task("BoxDataset", "v,1,0,0,1,1,1\n", "FramesAround", **CLASSES),
    "anticipation": task("AnticipationDataset", "0,v,36,45,0,1,0\n", "ObserveBefore"),
    "recognition": task(
        "EpicKitchensDataset",
        f"{EPIC}verb_class,noun_class\n0,P,v,00:00:00.20,00:00:00.90,7,27,0,1\n",
        *("LimitToSegment", "SpanFrames"),
    ),
}
ARGUMENTS = dict(
    CoverFrames=dict(clip_len=4),
    SpanFrames=dict(clip_len=4, frame_interval=1),
    FramesAround=dict(clip_len=4),
    ObserveBefore=dict(num_steps=2),
)


def dataset(task: dict, root: Path, decoder: str) -> SafeDataset:
    """A dataset of a task, whose only video is ``v.mp4``."""
    (root / "list.csv").write_text(task["annotations"])
    (root / "actions.csv").write_text("id,verb,noun,action\n0,0,1,take cup\n")
    named = dict(name="{video_id}.mp4") if task["kind"].startswith(("Epic", "Anti")) else {}
    if task["kind"].startswith("Anti"):
        named |= dict(action_file=str(root / "actions.csv"))
    names = task["transforms"]
    transforms = [dict(type=f"mmvidformer.{n}", **ARGUMENTS.get(n, {})) for n in names]
    read = [dict(type="mmvidformer.VideoInit", backend=decoder), *transforms]
    return SafeDataset(
        dict(
            type=f"mmvidformer.{task['kind']}",
            ann_file=str(root / "list.csv"),
            data_prefix=dict(video=str(root)),
            pipeline=[*read, dict(type="mmvidformer.VideoDecode"), *PACK],
            **named,
            **task["options"],
        ),
        on_bad_video="raise",
    )


SECONDS = {  # that the frames of a task are about
    "boxes": lambda fps: 1 + (np.arange(4) - 2) / fps,
    "anticipation": lambda fps: np.floor((1.2 - np.array([0.5, 0.25])) * fps) / fps,
}


@pytest.mark.parametrize("name", [name for name in TASKS if name != "own sampler"])
def test_frames_of_a_variable_rate_have_the_times_of_the_container(
    tmp_path: Path, name: str
) -> None:
    """What is decoded is what is shown at the second of its number."""
    write_clock(tmp_path / "v.mp4")
    samples = dataset(TASKS[name], tmp_path, "pyav")
    for seed in range(20):
        np.random.seed(seed)
        sample = samples[0]
        frames, fps = (sample["data_samples"].get(key) for key in ("frame_inds", "avg_fps"))
        seconds = np.asarray(frames) / fps
        told = read_clock(sample["inputs"][0].numpy().transpose(1, 2, 3, 0))
        np.testing.assert_allclose(told, shown_at(seconds), atol=0.05)
        assert sample["data_samples"].total_frames <= 4.5 * 25 + 1
        if name in SECONDS:
            np.testing.assert_allclose(seconds, SECONDS[name](fps), atol=1.01 / fps)
        if name == "recognition":
            assert ((told > 0.16 - 0.05) & (told < 0.9 + 0.05)).all()
        if name == "frames":
            sure = abs(told - 1) > 0.06
            wanted = np.where(seconds < 1, 0, 1)
            assert (np.asarray(sample["data_samples"].gt_label)[sure] == wanted[sure]).all()


@pytest.mark.parametrize("name", VARIABLE)
def test_anticipation_sees_what_is_shown_before_the_action(tmp_path: Path, name: str) -> None:
    """Of a telephone, a screen and a meeting; frames before 0.7 and 0.95 of 1.2 s."""
    times = VARIABLE[name]
    write_clock(tmp_path / "v.mp4", times)
    sample = dataset(TASKS["anticipation"], tmp_path, "pyav")[0]
    frames, fps = (sample["data_samples"].get(key) for key in ("frame_inds", "avg_fps"))
    told = read_clock(sample["inputs"][0].numpy().transpose(1, 2, 3, 0))
    np.testing.assert_allclose(told, shown_at(np.asarray(frames) / fps, times), atol=0.05)
    assert np.asarray(frames) / fps == pytest.approx([0.7, 0.95], abs=2 / fps)  # counted from 1
    assert sample["data_samples"].gt_label.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("name", "decoder"), [("own sampler", "pyav"), *((name, "decord") for name in TASKS)]
)
def test_where_frames_have_no_times_a_variable_rate_is_a_bad_video(
    tmp_path: Path, name: str, decoder: str
) -> None:
    """Decord numbers them as they come, and so does a sampler that knows of no seconds."""
    write(tmp_path / "v.mp4", count=50)
    assert dataset(TASKS[name], tmp_path, decoder)[0]["inputs"].shape[2] in (2, 4)
    write_clock(tmp_path / "v.mp4")
    with pytest.raises(BadVideo, match=r"v\.mp4: its frame rate varies .* fps=25 OUT, or mmvid"):
        dataset(TASKS[name], tmp_path, decoder)[0]


def test_a_class_of_the_whole_video_needs_no_times(tmp_path: Path) -> None:
    write(tmp_path / "v.mp4", times=[round(25 * time) for time in BURST], count=len(BURST))
    (tmp_path / "list.txt").write_text("v.mp4 0\n")
    sampler = dict(type="mmvidformer.SpanFrames", clip_len=4, frame_interval=4)
    read = [dict(type="mmvidformer.VideoInit"), sampler, dict(type="mmvidformer.VideoDecode")]
    options = dict(ann_file=str(tmp_path / "list.txt"), data_prefix=dict(video=str(tmp_path)))
    clips = SafeDataset(
        dict(type="VideoDataset", pipeline=[*read, *PACK], **options), on_bad_video="raise"
    )
    assert clips[0]["inputs"].shape[2] == 4


@pytest.mark.parametrize(
    ("rows", "late", "task"),
    [
        (SPANS, "video,start,end,label\nv.mp4,0,6,run\n", "frames"),
        (SPANS, "video,start,end,label\nv.mp4,0,6,run\n", "segments"),
        ("v,4,0,0,1,1,1\n", "v,6,0,0,1,1,1\n", "boxes"),
    ],
)
def test_the_check_of_annotations_knows_the_length(
    tmp_path: Path, rows: str, late: str, task: str
) -> None:
    """A video of 33 frames in 4.5 s."""
    write_clock(tmp_path / "v.mp4")
    (tmp_path / "list.csv").write_text(rows)
    faults, videos = find_annotation_faults(open_annotations(tmp_path / "list.csv", tmp_path), task)
    assert (faults, videos) == ([], {"v" if task == "boxes" else "v.mp4": tmp_path / "v.mp4"})
    (tmp_path / "list.csv").write_text(late)
    (fault,) = find_annotation_faults(open_annotations(tmp_path / "list.csv", tmp_path), task)[0]
    assert "6 s is after the end of v.mp4, at 4.52 s" in fault or "at 4.52 s" in fault


TIMELESS = dict(total_frames=1, start_index=0, filename="v.mp4", avg_fps=0.0)


@pytest.mark.parametrize(
    ("transform", "keys"),
    [
        (CoverFrames(4, target_fps=10), {}),
        (CoverFrames(4), dict(spans=np.zeros((0, 3)))),
        (LabelFrames(), dict(spans=np.zeros((0, 3)), frame_inds=np.zeros(1), background=0)),
        (ObserveFirst(target_fps=10), {}),
        (ObserveBefore(), dict(action_start=1.0)),
        (FramesAround(4), dict(timestamp=0)),
        (LimitToSegment(), dict(segment=(0, 1), segment_seconds=(0.0, 1.0))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_file_without_a_rate_is_a_bad_video(transform: Callable, keys: dict) -> None:
    """As one that states none and has a single frame."""
    with pytest.raises(BadVideo, match=r"^v\.mp4: its frame rate is unknown$"):
        transform({**TIMELESS, **keys})
