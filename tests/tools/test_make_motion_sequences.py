import csv

import pytest


def test_phases(main_of, tmp_path, capsys):
    sizes = ["--train", "8", "--val", "2", "--test", "8", "--shortest", "12", "--frames", "14"]
    main_of("data/make_motion_sequences")(["phases", str(tmp_path), "--workers", "1", *sizes])
    said = capsys.readouterr().out
    assert "8 train, 2 val, 8 test" in said
    assert "best constant prediction is right in 12.5% of the test clips" in said
    assert "with 25% of each clip seen, at best 25.0%" in said
    assert "with 50% of each clip seen, at best 50.0%" in said
    assert len((tmp_path / "train.txt").read_text().splitlines()) == 8


def test_sequences(main_of, tmp_path, capsys):
    sizes = ["--train", "1", "--val", "1", "--test", "2", "--actions", "3", "--texture", "0"]
    arguments = ["sequences", str(tmp_path), "--workers", "1", *sizes]
    main_of("data/make_motion_sequences")(arguments)
    said = capsys.readouterr().out
    assert f"{tmp_path}: written" in said
    with open(tmp_path / "test.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["narration_id"].endswith("_0")]
    verbs = [row["verb"] for row in rows]
    best = max(verbs.count(verb) for verb in verbs) / 4
    assert f"test: 4 segments; the best constant prediction of verb, noun, action is right in " \
        f"{best:.1%}, " in said  # fmt: skip
    assert "test, 0.25 s before: who knows the grammar, 85.0%, 67.5%, " in said
    main_of("data/make_motion_sequences")(arguments)
    assert "already there" in capsys.readouterr().out


def test_every_option_is_explained(main_of, capsys):
    for task, option in (("phases", "--shortest"), ("sequences", "--certainty")):
        with pytest.raises(SystemExit):
            main_of("data/make_motion_sequences")([task, "--help"])
        said = capsys.readouterr().out
        assert option in said and "--object-size" in said
        assert ("--frames" in said) == (task == "phases")
