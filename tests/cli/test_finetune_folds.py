"""mmvidformer finetune on folds: each is tested once, and what is there stays."""

import csv
import json
from pathlib import Path

import pytest

from mmvidformer.cli.data.list import main as list_videos
from mmvidformer.finetune import automatic as automatic_choice
from mmvidformer.finetune.tally import Tally

ROWS = {
    "classes": ("label", lambda label, number: [["red", "green", "blue"][label]]),
    "number": ("level", lambda label, number: [number]),
    "frames": ("start,end,label", lambda label, number: [0, 1, ["rest", "run"][number % 2]]),
}


@pytest.fixture
def make_folds(tiny_videos, tmp_path):
    """Write folds of the 15 tiny videos, by group; gives their folder."""

    def make(task: str, count: int = 3, groups: int = 5) -> str:
        names, values_of = ROWS[task]
        rows = []
        for number, path in enumerate(sorted(tiny_videos.root.glob("*_*.mp4"))):
            label = int(path.stem.rpartition("_")[2]) % 3
            rows.append([path, *values_of(label, number), f"p{number % groups}"])
        file = tmp_path / "all.csv"
        with file.open("w", newline="") as out:
            csv.writer(out).writerows([["video", *names.split(","), "group"], *rows])
        out_folder = tmp_path / "folds"
        list_videos([str(file), "--task", task, "--folds", str(count), "--out", str(out_folder)])
        return str(out_folder)

    return make


def run_options(pretrained, data: str, folder: Path, *further: str) -> list[str]:
    options = ["--config", pretrained[0], "--weights", pretrained[1], "--data", data]
    return [*options, "--work-dir", str(folder), *further]


TRAIN = ("--method", "full", "--epochs", "1", "--workers", "0", "--folds")


def test_all_folds(main_of, make_folds, pretrained, tmp_path, capsys) -> None:
    """The same command goes on: only the missing fold is trained, and the tables are the same."""
    data, work_dir = make_folds("classes"), tmp_path / "run"
    assert main_of("finetune")(run_options(pretrained, data, work_dir, *TRAIN)) == 0
    said = capsys.readouterr().out
    assert "3 of 3 folds, " in said and "n = 15 in 5 groups); without looking at" in said
    assert "frame differences with logistic regression: " in said
    content = json.loads((work_dir / "folds.json").read_text())
    rows = {row["fold"]: row for row in content["rows"]}
    assert [*rows] == ["1", "2", "3"]
    for name, row in rows.items():
        tally = Tally.read(row["tally"])
        assert row["value"] == pytest.approx(tally.share) == row["test"]["acc/top1"]
        assert (
            tally.count == len((Path(data) / f"fold_{name}" / "test.txt").read_text().split()) / 2
        )
        assert json.loads((work_dir / f"fold_{name}/finetune/result.json").read_text()) == (
            {key: value for key, value in row.items() if key not in ("fold", "method")}
        )
    table = (work_dir / "folds.csv").read_text()
    assert len(table.splitlines()) == 4
    kept = (work_dir / "fold_1" / "epoch_1.pth").stat().st_mtime_ns
    content["rows"][2] = {"fold": "3"}  # as if it had ended in the test of the last fold
    (work_dir / "folds.json").write_text(json.dumps(content))
    assert main_of("finetune")(run_options(pretrained, data, work_dir, *TRAIN)) == 0
    said = capsys.readouterr().out
    assert "fold 2 is in" in said and "fold 3 ..." in said
    assert (work_dir / "folds.csv").read_text() == table
    assert (work_dir / "fold_1" / "epoch_1.pth").stat().st_mtime_ns == kept
    with pytest.raises(FileExistsError, match="of a command with other options: epochs; --force"):
        main_of("finetune")(run_options(pretrained, data, work_dir, *TRAIN, "--epochs", "2"))
    list_file = Path(data) / "fold_1" / "train.txt"
    list_file.write_text(list_file.read_text().rpartition("\n/")[0] + "\n")
    with pytest.raises(FileExistsError, match="of a command with other options: lists; --force"):
        main_of("finetune")(run_options(pretrained, data, work_dir, *TRAIN))


def test_probes_share_features_and_folds_can_be_run_one_by_one(
    main_of, make_folds, pretrained, tmp_path, capsys, monkeypatch
) -> None:
    methods = iter(["knn", "full"])  # of --method auto, of the first fold and of the others
    data, work_dir = make_folds("classes"), tmp_path / "run"
    options = run_options(pretrained, data, work_dir, "--method", "linear")
    assert main_of("finetune")([*options, "--fold", "2"]) == 0
    assert "1 of 3 folds, " in capsys.readouterr().out
    features = {path: path.stat().st_mtime_ns for path in work_dir.glob("features/**/*.npy")}
    assert len(features) == 15
    assert main_of("finetune")([*options, "--folds"]) == 0
    said = capsys.readouterr().out
    assert "fold 2 is in" in said and "3 of 3 folds, " in said
    assert {path: path.stat().st_mtime_ns for path in features} == features
    assert not (work_dir / "finetune").exists()
    automatic = [
        *run_options(pretrained, data, tmp_path / "auto"),
        "--epochs",
        "1",
        "--workers",
        "0",
    ]
    monkeypatch.setattr(automatic_choice, "choose_method", lambda *_: (next(methods), "chosen"))
    assert main_of("finetune")([*automatic, "--folds"]) == 0
    rows = json.loads((tmp_path / "auto" / "folds.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["knn"] * 3 and [*methods] == ["full"]
    with pytest.raises(ValueError, match="has no fold 4, but 1, 2, 3"):
        main_of("finetune")([*options, "--fold", "4"])


@pytest.mark.parametrize(
    ("task", "metric"), [("number", "number/r2"), ("frames", "frames/accuracy")]
)
def test_folds_of_other_tasks_have_a_mean(
    main_of, make_folds, pretrained, tmp_path, capsys, task, metric
) -> None:
    options = run_options(pretrained, make_folds(task), tmp_path / "run", *TRAIN)
    assert main_of("finetune")([*options, "--task", task]) == 0
    said = capsys.readouterr().out
    assert f"3 of 3 folds: mean {metric} " in said and " to " in said
    rows = json.loads((tmp_path / "run" / "folds.json").read_text())["rows"]
    assert all(row["value"] == row["test"][metric] for row in rows)


def test_nothing_of_others_is_overwritten(main_of, own, make_folds, pretrained, tmp_path) -> None:
    """Neither a run in the folder of a fold, nor one fold for another's."""
    with pytest.raises(ValueError, match="has no folds; mmvidformer data list --folds 5"):
        main_of("finetune")(run_options(pretrained, own, tmp_path / "run", *TRAIN))
    data = make_folds("classes", 2)
    other = tmp_path / "run" / "fold_2" / "finetune" / "config.py"
    other.parent.mkdir(parents=True)
    other.write_text("other")
    with pytest.raises(FileExistsError, match="fold_2/finetune/config.py exists"):
        main_of("finetune")(run_options(pretrained, data, tmp_path / "run", *TRAIN))
    assert other.read_text() == "other" and not (tmp_path / "run" / "fold_1").exists()
    probe = run_options(pretrained, data, tmp_path / "run", "--method", "linear")
    assert main_of("finetune")([*probe, "--fold", "1"]) == 0
    with pytest.raises(FileExistsError, match="fold_2/finetune/config.py exists"):
        main_of("finetune")([*probe, "--folds"])
    assert other.read_text() == "other"
    for option in ("--prepare", "--resume"):
        with pytest.raises(SystemExit):
            main_of("finetune")(run_options(pretrained, data, tmp_path / "x", "--folds", option))


def test_folds_of_annotations(main_of, make_folds, pretrained, tmp_path, capsys) -> None:
    """Drawn or stated folds of a csv file are those of ``data list``; the same command goes on."""
    listed = Path(make_folds("classes"))
    table, work_dir = str(tmp_path / "all.csv"), tmp_path / "run"
    options = run_options(pretrained, table, work_dir, "--method", "linear", "--folds", "3")
    assert main_of("finetune")(options) == 0
    assert "3 of 3 folds, " in capsys.readouterr().out
    for name in ("1", "2", "3"):
        lists = [folder / f"fold_{name}" / "test.txt" for folder in (listed, work_dir / "lists")]
        assert lists[0].read_text() == lists[1].read_text()
    assert main_of("finetune")(options) == 0
    said = capsys.readouterr().out
    assert said.count("already") == 3 and "fold 1 ..." not in said
    stated = tmp_path / "stated.csv"
    rows = Path(table).read_text().splitlines()
    folds = [f"{row},{number % 5 // 3}" for number, row in enumerate(rows[1:])]
    stated.write_text("\n".join([f"{rows[0]},fold", *folds]))
    options = run_options(pretrained, str(stated), tmp_path / "stated", "--method", "linear")
    assert main_of("finetune")([*options, "--folds"]) == 0
    assert "2 of 2 folds, " in capsys.readouterr().out
    for wrong, error in (
        ([table, "--folds"], "all.csv states no folds; --folds 5 draws them"),
        ([str(stated)], "stated.csv states folds: finetune with --folds, or one"),
        ([str(stated), "--folds", "3"], "finetune --folds without 3"),
        ([str(stated), "--fold", "7"], "stated.csv has no fold 7, but 0, 1"),
        ([str(listed), "--folds", "3"], "has folds already: --folds, without 3"),
        ([str(listed), "--folds", "--root", str(tmp_path)], "--root, --columns, --only"),
    ):
        with pytest.raises(ValueError, match=error):
            main_of("finetune")(run_options(pretrained, wrong[0], tmp_path / "wrong", *wrong[1:]))
