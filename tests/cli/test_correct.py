"""The page "Label, train, correct, repeat": its commands, one after another, on tiny videos."""

import json
from pathlib import Path

import pytest

from tests.cli.page_commands import run_page


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
    run_page("correct.md", config, main_of, capsys, {"corrected.json": lambda: correct(folder)})
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
