"""The page "Behavior": from a project of BORIS to a model, films and a project to correct."""

import json
import re
from pathlib import Path

from mmvidformer.data.importers import open_annotations
from tests.cli.page_commands import ROOT, run_page

BEHAVIORS = {
    "0": {"type": "State event", "code": "Füttern"},
    "1": {"type": "Point event", "code": "ruft"},
}


def observe(video: str, *events: list) -> dict:
    return {
        "type": "MEDIA",
        "file": {"1": [f"C:\\Users\\ann\\{video}"], "2": []},
        "time offset": 0.0,
        "events": [*events],
        "media_info": {"length": {f"C:\\Users\\ann\\{video}": 2.0}},
    }


def without_numbers(text: str) -> str:
    """Replace the numbers that differ from run to run."""
    return re.sub(r"(epoch_)?[\d.]+(\.pth|%| segments?)", r"\1N\2", text)


def test_the_commands_of_the_page(
    tiny_videos, tmp_path: Path, monkeypatch, main_of, make_config, capsys
) -> None:
    for folder, numbers in (("phone/day 1", (0, 1, 2)), ("new", (3, 4))):
        (tmp_path / folder).mkdir(parents=True)
        for number in numbers:
            video = tmp_path / folder / f"IMG {number}.mp4"
            video.symlink_to(tiny_videos.root / f"val_{number}.mp4")
    state = [[0.25, "", "Füttern", "", ""], [1.25, "", "Füttern", "", ""]]
    calls = [[0.5, "", "ruft", "", ""], [1.5, "ann", "ruft", "", ""]]
    open_state = [1.5, "ann", "Füttern", "", ""]
    observations = {
        "1": observe("IMG 0.mp4", *state, *calls),
        "2": observe("IMG 1.mp4", *state, open_state),
        "3": observe("IMG 2.mp4", *state),
    }
    project = {"behaviors_conf": BEHAVIORS, "observations": observations}
    (tmp_path / "nest.boris").write_text(json.dumps(project))
    monkeypatch.chdir(tmp_path)
    backbone = dict(scheme="spacetime", temporal_depth=4)
    config = str(make_config("segments", model=dict(backbone=backbone)))

    def correct() -> None:
        """Do what somebody does in BORIS: delete all events but those of the first behavior."""
        project = json.loads(Path("new.boris").read_text())
        for observation in project["observations"].values():
            observation["events"] = state
        Path("new.boris").write_text(json.dumps(project))

    outputs = run_page("behavior.md", config, main_of, capsys, {"lists/second": correct})
    printed = "".join(outputs).replace(str(tmp_path), "/home/you")
    page = (ROOT / "docs" / "behavior.md").read_text()
    shown = "".join(re.findall(r"```text\n(.*?)```", page, re.S))
    place = 0
    for part in map(without_numbers, shown.split("...\n")):  # which stands for what is left out
        place = without_numbers(printed).find(part, place) + len(part)
        assert place >= len(part), part
    assert shown.startswith(outputs[0]) and outputs[-1].replace(str(tmp_path), "/home/you") in shown
    assert len([*Path("films").rglob("*.mp4")]) == 2
    assert {path.name for path in Path("new_elan").iterdir()} == {"IMG 3.eaf", "IMG 4.eaf"}
    assert open_annotations("new_elan/IMG 3.eaf").rows
    lists = "".join(file.read_text() for file in Path("lists/second").glob("*.csv"))
    assert lists.count(",0.25,1.25,Füttern") == 2
