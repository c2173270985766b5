"""Files of data sets, in the form of official ones, such as lists of UCF101 and of SoccerNet."""

import json
import shutil
from pathlib import Path

import pytest

from mmvidformer.data.importers import find_format, open_annotations
from mmvidformer.errors import UserError
from mmvidformer.tasks.imports import guess_task
from mmvidformer.tasks.lists import fold_annotations, split_annotations

EVENTS = [
    {"gameTime": "1 - 00:01", "label": "Kick-off", "position": "560", "team": "home"},
    {"gameTime": "2 - 16:41", "label": "Goal", "position": "1001250", "team": "away"},
]
GAME = {"UrlLocal": "epl/2014/a - b/", "UrlYoutube": "", "annotations": EVENTS}
POSITIONS = {
    "metadata": {"split": "test"},
    "data": [
        {
            "inputs": [{"type": "video", "path": "epl/1_720p.mp4", "fps": 25.0}],
            "events": [{"head": "ball_action", "label": "PASS", "position_ms": "840"}],
        },
        {"inputs": [{"type": "video", "path": "epl/b.mp4"}], "events": []},
    ],
}
VIEWS = [{"type": "video", "path": name} for name in ("epl/1_720p.mp4", "epl/b.mp4")]
HEADS = {"contact": {"label": None}, "action": {"label": "Dive"}, "body": {"label": "Upper"}}
LABELS = {"data": [{"id": "action_0", "inputs": VIEWS, "labels": HEADS}]}
FRAMES = [
    {"video": "b", "fps": 25.0, "events": [{"frame": 30, "label": "serve", "comment": ""}]},
    {"video": "1_720p", "fps": -1, "events": [{"frame": 6, "label": "Entry"}]},
]
EPIC = """narration_id,participant_id,video_id,narration_timestamp,start_timestamp,stop_timestamp,\
start_frame,stop_frame,narration,verb,verb_class,noun,noun_class,all_nouns,all_noun_classes
P01_11_0,P01,b,00:00:00.560,00:00:00.00,00:01:01.89,1,113,take plate,take,0,plate,2,['plate'],[2]
"""
CHARADES = """id,subject,scene,quality,actions,length
b,HR43,Kitchen,6,c092 11.90 21.20;c147 0.00 12.60,24.83
1_720p,HR43,Kitchen,6,,24.83
"""


@pytest.fixture
def folder(tiny_videos, tmp_path: Path) -> Path:
    """A folder with four videos of 12 frames a second."""
    (tmp_path / "epl").mkdir()
    for name in ("1_224p.mp4", "1_720p.mp4", "2_720p.mp4", "b.mp4"):
        shutil.copy(tiny_videos.root / "val_0.mp4", tmp_path / "epl" / name)
    return tmp_path


def read(file: Path, folder: Path, *columns: str) -> list[tuple[str, ...]]:
    table = open_annotations(file, folder)
    rows = [row for row, _ in table.read("video")]
    return [(Path(row["video"]).name, *(row[name] for name in columns)) for row in rows]


def test_games_of_soccernet(folder: Path) -> None:
    file = folder / "epl" / "Labels-v2.json"
    file.write_text(json.dumps(GAME))
    expected = [
        ("1_720p.mp4", "0.56", "Kick-off", GAME["UrlLocal"], "home"),
        ("2_720p.mp4", "1001.250", "Goal", GAME["UrlLocal"], "away"),
    ]
    for path in (file, folder):
        assert find_format(path) == "spotting"
        assert read(path, folder, "time", "label", "group", "team") == expected
    assert guess_task(open_annotations(file)).name == "moments"


def test_a_game_in_one_file_elsewhere(folder: Path) -> None:
    """Annotations may lie in another folder than the videos, whose tree is SoccerNet's."""
    place = folder / "videos" / GAME["UrlLocal"]
    place.mkdir(parents=True)
    (folder / "epl" / "b.mp4").rename(place / "224p.mp4")
    (folder / "Labels-ball.json").write_text(json.dumps(GAME))
    rows = read(folder / "Labels-ball.json", folder / "videos", "time")
    assert rows == [("224p.mp4", "0.56"), ("224p.mp4", "1001.250")]


def test_events_of_open_sports_lab(folder: Path) -> None:
    (folder / "all.json").write_text(json.dumps(POSITIONS))
    assert read(folder / "all.json", folder, "time", "label", "split") == [
        ("1_720p.mp4", "0.84", "PASS", "test"),
        ("b.mp4", "", "", "test"),
    ]
    (folder / "all.json").write_text(json.dumps(LABELS))
    assert read(folder / "all.json", folder, "label", "action", "body", "group") == [
        ("1_720p.mp4", "Dive", "Dive", "Upper", "action_0"),
        ("b.mp4", "Dive", "Dive", "Upper", "action_0"),
    ]


def test_frames_of_e2e_spot(folder: Path) -> None:
    """A rate that is stated counts, else that of the video."""
    (folder / "train.json").write_text(json.dumps(FRAMES))
    rows = read(folder / "train.json", folder, "time", "label", "split")
    assert rows == [
        ("b.mp4", "1.2", "serve", "train"),
        ("1_720p.mp4", "0.5", "Entry", "train"),
    ]
    table = open_annotations(folder / "train.json", folder, fps=30)
    assert [row["time"] for row, _ in table.read("video")] == ["1.0", "0.2"]


def test_actions_of_epic_kitchens(folder: Path) -> None:
    file = folder / "EPIC_100_validation.csv"
    file.write_text(EPIC)
    assert find_format(file) == "epic-kitchens"
    assert read(file, folder, "start", "end", "label", "noun", "group", "split") == [
        ("b.mp4", "0.00", "61.89", "take", "plate", "P01", "val")
    ]
    assert guess_task(open_annotations(file)).name == "segments"


def test_actions_of_charades(folder: Path) -> None:
    file = folder / "Charades_v1_train.csv"
    file.write_text(CHARADES)
    (folder / "Charades_v1_classes.txt").write_text("c092 Holding a dish\n")
    assert read(file, folder, "start", "end", "label", "group", "split") == [
        ("b.mp4", "11.90", "21.20", "Holding a dish", "HR43", "train"),
        ("b.mp4", "0.00", "12.60", "c147", "HR43", "train"),
        ("1_720p.mp4", "", "", "", "HR43", "train"),
    ]


# Lines of UCF101's trainlist01.txt, testlist01.txt, and so on. Those of HMDB51 follow its
# split_readme.txt: 1 is training, 2 test, 0 neither; lines end with a space.
UCF101 = {
    "trainlist01.txt": "Archery/v_Archery_g08_c01.avi 3\nArchery/v_Archery_g15_c02.avi 3\n",
    "trainlist02.txt": "Archery/v_Archery_g01_c01.avi 3\nArchery/v_Archery_g15_c02.avi 3\n",
    "testlist01.txt": "Archery/v_Archery_g01_c01.avi\r\n",
    "testlist02.txt": "Archery/v_Archery_g08_c01.avi\r\n\r\n",
    "classInd.txt": "3 Archery\n",
}
HMDB51 = {
    "kick_ball_test_split1.txt": "b.mp4 1 \n1_720p.mp4 2 \n1_224p.mp4 0 \n",
    "kick_ball_test_split2.txt": "b.mp4 2 \n1_720p.mp4 1 \n1_224p.mp4 0 \n",
}


def write_lists(folder: Path, lists: dict[str, str]) -> Path:
    (folder / "lists").mkdir()
    for name, text in lists.items():
        (folder / "lists" / name).write_bytes(text.encode())
    return folder / "lists"


def test_folds_of_ucf101(folder: Path) -> None:
    names = ["v_Archery_g01_c01.avi", "v_Archery_g08_c01.avi", "v_Archery_g15_c02.avi"]
    (folder / "Archery").mkdir()
    for name in names:
        shutil.copy(folder / "epl" / "b.mp4", folder / "Archery" / name)
    lists = write_lists(folder, UCF101)
    assert read(lists, folder, "label", "fold", "group") == [
        (names[0], "Archery", "1", "v_Archery_g01"),
        (names[1], "Archery", "2", "v_Archery_g08"),
        (names[2], "Archery", "", "v_Archery_g15"),
    ]
    folds = fold_annotations(open_annotations(lists, folder), "classes", folder / "out")
    assert {name: fold.counts for name, fold in folds.items()} == {
        "1": {"train": 2, "val": 0, "test": 1},
        "2": {"train": 2, "val": 0, "test": 1},
    }
    (lists / "testlist02.txt").unlink()
    assert [row[1] for row in read(lists, folder, "split")] == ["test", "train", "train"]


def test_splits_of_hmdb51(folder: Path) -> None:
    lists = write_lists(folder, HMDB51)
    table = open_annotations(lists, folder, only=[("official", "2")])
    rows = [(Path(row["video"]).name, row["label"], row["split"]) for row, _ in table.read("video")]
    assert rows == [("b.mp4", "kick_ball", "test"), ("1_720p.mp4", "kick_ball", "train")]
    with pytest.raises(UserError, match="b.mp4 is in two splits; --only official=1 takes"):
        split_annotations(open_annotations(lists, folder), "classes", folder / "out")


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("Labels-v2.json", {"annotations": [{**EVENTS[0], "position": "soon"}]}, "milliseconds"),
        ("Labels-v2.json", {"annotations": [{"gameTime": "1 - 00:01"}]}, "annotation 1 is damaged"),
        ("a.json", {"data": [{"inputs": [{"type": "video"}]}]}, "data 1 is damaged: KeyError 'pat"),
        ("a.json", [{"video": "b", "events": [{"frame": "x"}]}], "frame must be a number, got x"),
    ],
)
def test_damaged_files(folder: Path, name: str, content: object, error: str) -> None:
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(UserError, match=error):
        open_annotations(folder / name)
