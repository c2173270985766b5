"""From annotation to picture with the commands, for each task."""

import csv
import json
import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from mmvidformer.errors import UserError
from mmvidformer.sinks.timeline import draw_timeline

RESULTS = {
    "labels": "acc/mean_average_precision",
    "number": "number/r2",
    "frames": "frames/accuracy",
    "segments": "segments/mAP",
    "moments": "moments/mean",
}


@pytest.mark.parametrize("task", RESULTS)
def test_a_task_from_annotation_to_picture(
    task, annotate, main_of, test, make_config, tmp_path, capsys, tiny_videos, monkeypatch
) -> None:
    root, run = annotate(task), tmp_path / "run"
    main_of("data.list")([str(root / "all.csv"), "--task", task])
    options = ["--config", str(make_config(task)), "--data", str(root), "--task", task]
    options += ["--work-dir", str(run), "--epochs", "2", "--batch", "4", "--workers", "0"]
    balance = ["--balance", "weights"] if task in ("labels", "frames") else []
    main_of("finetune")([*options, *balance])
    config, best = str(run / "finetune" / "config.py"), str(next(run.glob("best_*.pth")))
    (videos,) = root.glob("val.*")
    *_, last = videos.read_text().splitlines()
    videos.write_text(f"{videos.read_text()}{last.replace('val_6', 'gone')}\n")
    check_card(task, run, str(tiny_videos.root / "val_0.mp4"), main_of, monkeypatch)
    scores, page = tmp_path / "scores.npz", tmp_path / "errors.html"
    test([config, best, f"--dump={scores}", "--cfg-options", "bad_videos.max_bad_share=0.5"])
    main_of("plot.errors")([str(scores), f"--out={page}"])
    text = page.read_text()
    assert "errors of 8 videos; 1 videos could not be read" in text
    if task in ("frames", "number"):  # which have errors after two epochs, too
        assert text.count("<img") == 4 * text.count("<article>") > 0
    (found,) = run.glob("test_*.json")
    metrics = json.loads(found.read_text())["metrics"]
    assert np.isfinite(metrics[RESULTS[task]]) and metrics["bad_videos"] == 1
    assert (metrics.get("number/left_out") == 1) == (task == "number")
    video = str(tiny_videos.root / "val_0.mp4")
    capsys.readouterr()
    outputs = [f"--{kind}={tmp_path}/{kind}.{suffix}" for kind, suffix in
               (("json", "json"), ("csv", "csv"), ("timeline", "png"), ("out", "mp4"))]  # fmt: skip
    truth = [f"--truth={root}/val.csv"] if task in ("frames", "segments", "moments") else []
    truth += ["--min-score=0.001", "--cfg-options", "model.cls_head.score_thr=0.001"][
        : 3 * (task in ("segments", "moments"))
    ]
    draw = Mock(wraps=draw_timeline)
    monkeypatch.setattr("mmvidformer.sinks.timeline.draw_timeline", draw)
    assert main_of("demo")([config, best, video, *outputs, *truth]) == 0
    rows = list(csv.DictReader((tmp_path / "csv.csv").open()))
    records = [json.loads(line) for line in (tmp_path / "json.json").read_text().splitlines()]
    assert all((tmp_path / name).stat().st_size for name in ("timeline.png", "out.mp4"))
    if task in ("segments", "moments"):
        assert draw.call_args.kwargs["duration"] == 2  # all of the video
        assert len(rows) == len(records) > 0
        assert all(0 <= one["start"] <= one["end"] <= 2 for one in records)
        assert [len(one["top"]) for one in records] == [1] * len(rows)
        has_length = any(one["start"] < one["end"] for one in records)
        assert has_length == (task == "segments")
    elif task == "number":
        assert list(rows[0]) == ["video", "start", "end", "shot", "level", "size"]
        for name in ("level", "size"):
            assert records[0][name] == float(rows[0][name])
    else:
        shown = {best["label"] for best in records[0]["top"]}
        assert shown == {"red", "green", "blue"} | ({"background"} if task == "frames" else set())
    if task == "frames":  # 24 frames at interval 2 with tubelets of 2: 6 steps
        assert len(records) == 6 and records[-1]["end"] == 2  # at 12 frames per second


def check_card(task: str, run: Path, video: str, main_of, monkeypatch) -> None:
    """The card of a run says what was measured, and its example runs."""
    folder = run.parent / "shared"
    assert main_of("push")([str(run), "--out", str(folder), "--license", "mit"]) == 0
    card, result = (folder / "README.md").read_text(), run / "finetune" / "result.json"
    noun, count = ("values", 2) if task == "number" else ("classes", 3 + (task == "frames"))
    assert f"for the task `{task}`, with {count} {noun}." in card and f"## {noun.title()}" in card
    names = "level, size" if task == "number" else "blue, green, red"
    assert f"\n- {names}" in card
    (figure,) = json.loads(result.read_text())["figures"]
    measured = f"| validation | {RESULTS[task]} | {figure['value']:.3f} | not known | 7 |"
    assert f"| {figure['data']} {measured}" in card
    for fact in (figure["date"], figure["processor"], f"--task {task}", "| license | mit |"):
        assert fact in card
    (example,) = re.findall("```python\n(.*?)```", card, re.S)
    monkeypatch.chdir(folder)
    exec(example.replace("video.mp4", video))


def test_a_task_needs_its_annotations(main_of, annotate, make_config, tmp_path) -> None:
    root = annotate("labels")
    options = ["--config", str(make_config("wrong")), "--data", str(root)]
    options += ["--work-dir", str(tmp_path / "run"), "--prepare"]
    with pytest.raises(
        FileNotFoundError, match=r"labels\d has no videos, only 1 \.csv; to read [a-z.]*, give"
    ):
        main_of("finetune")([*options, "--task", "number"])
    for task, fitting in (
        ("labels", "classes or labels by its columns, video, label, split; others are number, fr"),
        ("number", "number by its columns, video, level, size, split; others are classes, lab"),
        ("segments", "frames or segments by its columns, video, start, end, label, split; other"),
        ("moments", "moments by its columns, video, time, label, split; others are classes"),
    ):
        with pytest.raises(ValueError, match=f"all.csv: --task must be {fitting}"):
            main_of("data.list")([str(annotate(task) / "all.csv")])
    numbers = annotate("number")
    main_of("data.list")([str(numbers / "all.csv"), "--task", "number"])
    options[3] = str(numbers)
    with pytest.raises(UserError, match="balance of the task number is not available"):
        main_of("finetune")([*options, "--task", "number", "--balance", "weights"])
