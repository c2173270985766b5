"""A mistake in a csv file has the same words in ``data check`` and in ``finetune``."""

from pathlib import Path

import pytest

from mmvidformer.engine.errors import run_tool

SPANS = "video,start,end,label\nval_0.mp4,0,1,run\n"
VALUES = "video,speed\nval_0.mp4,1\n"
BOXES = "val_0,1,0,0,1,1,1\n"

MISTAKES = {
    "a time is no number": (
        "frames",
        f"{SPANS}val_1.mp4,x,1,run\n",
        "line 3: start must be a number",
    ),
    "no label": ("frames", f"{SPANS}val_1.mp4,0,1,\n", "line 3: label is empty"),
    "end before start": (
        "frames",
        f"{SPANS}val_1.mp4,1,0,run\n",
        "line 3: start must be at least 0",
    ),
    "overlap": ("frames", f"{SPANS}val_0.mp4,0.5,2,run\n", "line 3: starts at 0.5 s, before 1 s"),
    "unknown class": ("segments", f"{SPANS}val_1.mp4,0,1,fly\n", "line 3: 'fly' is no class; they"),
    "no video": ("segments", f"{SPANS},0,1,run\n", "line 3: video is empty"),
    "no number": (
        "number",
        f"{VALUES}val_1.mp4,fast\n",
        "line 3: speed must be a number, got 'fast'",
    ),
    "twice": ("number", f"{VALUES}val_0.mp4,2\n", "line 3: val_0.mp4 is already in"),
    "infinite": ("number", f"{VALUES}val_1.mp4,inf\n", "line 3: speed must be a number, got 'inf'"),
    "box outside": ("boxes", f"{BOXES}val_1,1,0,0,2,1,1\n", "line 2: box must be x1 < x2"),
    "class number": (
        "boxes",
        f"{BOXES}val_1,1,0,0,1,1,9\n",
        "line 2: label must be a class or in 1 to 1, got 9",
    ),
    "a comma too many": (
        "number",
        f"{VALUES}val_1.mp4,2,3\n",
        "line 3: it has more values than there are",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_check_and_training_say_the_same(
    mistake: str, main_of, tiny_videos, tmp_path: Path, capsys
) -> None:
    task, text, words = MISTAKES[mistake]
    for name in ("val_0.mp4", "val_1.mp4"):
        (tmp_path / name).symlink_to(tiny_videos.root / name)
    file = tmp_path / "train.csv"
    file.write_text(text)
    (tmp_path / "classes.txt").write_text("run\n")
    assert main_of("data.check")([str(file), "--task", task]) == 1
    (said, count) = capsys.readouterr().out.splitlines()
    assert said.startswith(f"{file}, {words}") and count == f"{file}: 1 fault"
    options = ["--config", "vivit_fsa_motion", "--data", str(tmp_path), "--task", task]
    options += ["--prepare", "--work-dir", str(tmp_path / "run")]
    assert run_tool(lambda: main_of("finetune")(options)) == 2
    assert f"error: {said}\n" in capsys.readouterr().err
