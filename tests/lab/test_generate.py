import csv

import pytest


@pytest.fixture
def make(main_of, capsys):
    """Run the tool in one process; returns what it prints."""

    def run(*arguments: object) -> str:
        main_of("lab.generate")([*map(str, arguments), "--workers", "1"])
        return capsys.readouterr().out

    return run


def test_directions(make, tmp_path):
    sizes = ["--train", "3", "--val", "1", "--test", "1", "--frames", "2", "--classes", "3"]
    said = make(tmp_path / "lists", *sizes)
    assert "videos: 3 train, 1 val, 1 test" in said
    assert "3 classes: right, down, left" in said
    assert len((tmp_path / "lists" / "train.txt").read_text().splitlines()) == 3
    make(tmp_path / "folders", *sizes, "--class-folders", "--preset", "plain")
    assert (tmp_path / "folders" / "down" / "train_00001.mp4").is_file()
    assert not (tmp_path / "folders" / "train.txt").exists()


def test_phases(make, tmp_path):
    sizes = ["--train", "8", "--val", "2", "--test", "8", "--shortest", "12", "--frames", "14"]
    said = make(tmp_path, "--preset", "phases", *sizes)
    assert "8 train, 2 val, 8 test" in said
    assert "8 classes: right down right, right down left, " in said
    assert len((tmp_path / "train.txt").read_text().splitlines()) == 8


def test_sequences(make, tmp_path):
    sizes = ["--train", "1", "--val", "0", "--test", "2", "--actions", "3", "--texture", "0"]
    arguments = [tmp_path, "--preset", "sequences", *sizes]
    assert f"{tmp_path}: written" in make(*arguments)
    with open(tmp_path / "test.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 6
    assert "already there" in make(*arguments)


def test_every_setting_of_a_preset_has_an_option(main_of, capsys):
    for preset, option in (
        ("easy", "--classes"),
        ("phases", "--shortest"),
        ("sequences", "--certainty"),
    ):
        with pytest.raises(SystemExit):
            main_of("lab.generate")(["--preset", preset, "--help"])
        said = capsys.readouterr().out
        assert option in said and "--object-size" in said
        assert ("--frames" in said) == (preset != "sequences")
