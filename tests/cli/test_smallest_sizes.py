"""The smallest sizes of each task work from the annotations to the answer, or are refused."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmvidformer.engine.errors import run_tool

SPANS = "video,start,end,label,split\n"
BOXES = "video,time,x1,y1,x2,y2,label,split\n"
# Rows of a csv file, of which ``a`` is for training, ``b`` for validation and ``c`` for testing.
SIZES = {
    "classes": {
        "one class": ("video,label,split\na,run,train\nb,run,val\n", "at least 2 classes"),
        "one video each": (
            "video,label,split\na,run,train\nd,sit,train\nb,sit,val\nc,run,test\n",
            "",
        ),
        "no validation": ("video,label,split\na,run,train\nd,sit,train\n", ""),
        "a class in validation alone": ("video,label,split\na,run,train\nb,sit,val\n", ""),
    },
    "labels": {
        "one label": ("video,label,split\na,run,train\nb,run,val\n", ""),
        "none in validation": ("video,label,split\na,run;sit,train\nb,,val\n", ""),
        "none at all": ("video,label,split\na,,train\nb,,val\n", "at least 1 class"),
    },
    "number": {
        "one value": ("video,speed,split\na,1,train\nb,2,val\n", "R^2"),
        "two videos": ("video,speed,split\na,1,train\nb,2,val\nd,3,val\n", ""),
        "constant": ("video,speed,split\na,1,train\nb,1,val\nd,1,val\n", "R^2"),
        "no validation": ("video,speed,size,split\na,1,2,train\n", ""),
    },
    "frames": {
        "one span": (f"{SPANS}a,0.1,0.5,run,train\nb,0.2,0.9,run,val\n", ""),
        "none in validation": (f"{SPANS}a,0.1,0.5,run,train\nb,,,,val\n", ""),
        "no validation": (f"{SPANS}a,0.1,0.5,run,train\n", ""),
        "none at all": (f"{SPANS}a,,,,train\n", "at least 2 classes"),
    },
    "segments": {
        "one segment": (f"{SPANS}a,0.1,0.5,run,train\nb,0.2,0.9,run,val\n", ""),
        "none in validation": (f"{SPANS}a,0.1,0.5,run,train\nb,,,,val\n", ""),
        "no validation": (f"{SPANS}a,0.1,0.5,run,train\n", ""),
        "none at all": (f"{SPANS}a,,,,train\n", "at least 1 class"),
    },
    "moments": {
        "one moment": ("video,time,label,split\na,0.5,run,train\nb,0.2,run,val\n", ""),
        "none in validation": ("video,time,label,split\na,0,run,train\nb,,,val\n", ""),
        "none at all": ("video,time,label,split\na,,,train\n", "at least 1 class"),
    },
    "boxes": {
        "one box": (f"{BOXES}a,1,.1,.1,.9,.9,1,train\nb,1,.1,.1,.9,.9,1,val\n", ""),
        "no validation": (f"{BOXES}a,1,.1,.1,.9,.9,1,train\n", ""),
    },
}


def sizes() -> Iterator[object]:
    """Tasks and names of sizes; the first size of each task is not slow."""
    for task, names in SIZES.items():
        for number, size in enumerate(names):
            yield pytest.param(task, size, marks=[pytest.mark.slow] * (number > 0))


@pytest.mark.parametrize(("task", "size"), list(sizes()))
def test_from_annotations_to_an_answer(
    task: str, size: str, main_of, test, make_config, tiny_videos, tmp_path: Path, capsys
) -> None:
    rows, refusal = SIZES[task][size]
    for number, name in enumerate("abcd"):
        (tmp_path / f"{name}.mp4").symlink_to(tiny_videos.root / f"val_{number}.mp4")
    text = re.sub("^(?=[abcd],)(.)", r"\1.mp4", rows, flags=re.M)
    (tmp_path / "all.csv").write_text(text)
    (tmp_path / "classes.txt").write_text("run\n")
    lists, run = tmp_path / "lists", tmp_path / "run"
    listing = [str(tmp_path / "all.csv"), "--task", task, "--out", str(lists)]
    assert run_tool(lambda: main_of("data.list")(listing) or 0) == 0
    backbone = dict(scheme="spacetime", temporal_depth=4)
    config = make_config(task, model=dict(backbone=backbone))
    options = ["--config", str(config), "--data", str(lists), "--task", task, "--batch", "1"]
    options += ["--work-dir", str(run), "--epochs", "1", "--workers", "0"]
    status = run_tool(lambda: main_of("finetune")(options))
    shown = capsys.readouterr()
    if refusal:
        assert status == 2 and not list(run.glob("*.pth"))
        assert refusal in shown.err and "Traceback" not in shown.err
        return
    assert status == 0, shown.err
    model = [str(run / "finetune" / "config.py"), str(next(run.glob("epoch_1.pth")))]
    if "val" in rows:
        test(model)
        (result,) = run.glob("test_*.json")
        metrics = json.loads(result.read_text())["metrics"]
        assert all(math.isfinite(value) for value in metrics.values())
        shown = capsys.readouterr().out
        has_none = size == "none in validation" and task in ("labels", "segments", "moments")
        assert not re.search(r"\bnan\b", shown) and ("no result" in shown) == has_none
    boxes = ["--boxes", str(tmp_path / "all.csv")] if task == "boxes" else []
    answers = tmp_path / "answers.json"
    demo = [*model, str(tmp_path / "a.mp4"), "--json", str(answers), *boxes]
    assert run_tool(lambda: main_of("demo")(demo)) == 0
    assert task in ("segments", "moments") or answers.read_text()
