"""The page "Label, train, correct, repeat": its commands, one after another, on tiny videos."""

import json
import shlex
from pathlib import Path

import pytest

from mmvidformer.engine.errors import run_tool
from tests.docs.blocks import is_shell, read_blocks, split_commands

ROOT = Path(__file__).parents[2]
SMALL = ["--epochs", "1", "--batch", "1", "--workers", "0"]


def export(tasks: list[dict], results_of: dict[str, list[dict]]) -> list[dict]:
    """What Label Studio exports of tasks: their data and predictions stay."""
    exported = []
    for number, task in enumerate(tasks, start=1):
        results = results_of[task["data"]["video"]]
        annotation = {"id": number, "result": results, "was_cancelled": False}
        annotation |= {"updated_at": "2026-01-01T00:00:00Z", "lead_time": 1.5}
        exported.append({"predictions": [], **task, "id": number, "annotations": [annotation]})
    return exported


def segment(start: int, end: int, label: str = "run") -> dict:
    value = {"ranges": [{"start": start, "end": end}], "timelinelabels": [label]}
    names = {"from_name": "segments", "to_name": "video", "type": "timelinelabels"}
    return {"id": f"{start}-{end}", **names, "value": value}


@pytest.fixture
def folder(tiny_videos, tmp_path: Path, monkeypatch) -> Path:
    """The folder of a user, with videos, and the export of the first ones."""
    for name, numbers in (("videos", (0, 1, 2)), ("new", (3, 4))):
        (tmp_path / name).mkdir()
        for number in numbers:
            (tmp_path / name / f"{number}.mp4").symlink_to(tiny_videos.root / f"val_{number}.mp4")
    tasks = [{"data": {"video": f"/data/upload/1/0a1b2c3d-{number}.mp4"}} for number in range(3)]
    results = {task["data"]["video"]: [segment(3, 12)] for task in tasks}
    (tmp_path / "first.json").write_text(json.dumps(export(tasks, results)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page(folder: Path, main_of, make_config, capsys) -> None:
    backbone = dict(scheme="spacetime", temporal_depth=4)
    config = str(make_config("segments", model=dict(backbone=backbone)))
    page = ROOT / "docs" / "correct.md"
    blocks = [block for block in read_blocks(page, ROOT) if is_shell(block)]
    commands = [words for block in blocks for words in split_commands(block.text)]
    for words in commands:
        names, options = words[1:2], words[2:]
        if names == ["data"]:
            names, options = words[1:3], words[3:]
        text = shlex.join(options).replace("--weights published://vivit_fe_k400", "")
        text = text.replace("vivit_fe_k400", config)
        best = [*folder.glob("work_dirs/first/*epoch_1.pth")]
        if best:
            text = text.replace("work_dirs/first/best_segments_mAP_epoch_9.pth", str(best[0]))
        options = shlex.split(text)
        options += SMALL if names == ["finetune"] else []
        options += ["--min-score", "0"] if names == ["demo"] else []
        if "corrected.json" in options:
            correct(folder)
        main = main_of(".".join(names))
        status = run_tool(lambda main=main, options=options: main(options) or 0)
        assert status == 0, f"{words}: {capsys.readouterr().err}"
    rows = "".join(path.read_text() for path in (folder / "lists" / "second").glob("*.csv"))
    assert "3.mp4,0.25,1.0,run" in rows  # 12 frames a second
    assert len([*(folder / "new_cvat").glob("*.xml")]) == 2


def correct(folder: Path) -> None:
    """Do what somebody does in Label Studio: correct the first video, and accept the others."""
    tasks = json.loads((folder / "new" / "tasks.json").read_text())
    results = {task["data"]["video"]: task["predictions"][0]["result"] for task in tasks}
    assert all(results.values())
    results[tasks[0]["data"]["video"]] = [segment(4, 12)]
    (folder / "corrected.json").write_text(json.dumps(export(tasks, results)))
