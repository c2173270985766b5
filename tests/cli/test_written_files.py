"""Commands that write a file that is named: never what they read, or what is there already."""

import shutil
from pathlib import Path

import pytest

from mmvidformer.data.prepare import prepare_list
from mmvidformer.errors import UserError

PLOTS = {
    "lab.plot.field": ["CONFIG", "--out", "TARGET"],
    "lab.plot.curves": ["FOLDER", "--out", "TARGET"],
    "lab.plot.views": ["FOLDER", "--out", "TARGET"],
    "lab.plot.tsne": ["FOLDER", "INPUT", "--out", "TARGET"],
    "export": ["CONFIG", "CHECKPOINT", "--out", "TARGET"],
    "convert": ["CHECKPOINT", "TARGET"],
    "count": ["CONFIG", "--csv", "TARGET"],
    "speed": ["CONFIG", "CHECKPOINT", "--json", "TARGET"],
    "test": ["CONFIG", "CHECKPOINT", "--dump", "TARGET"],
}
SUFFIXES = {"export": ".pt2", "convert": ".pth", "test": ".npz", "count": ".csv", "speed": ".json"}


@pytest.mark.parametrize("command", PLOTS)
def test_old_files_and_inputs_stay(main_of, model, tmp_path, command, capsys) -> None:
    config, checkpoint, other = (tmp_path / name for name in ("config.py", "a.pth", "list.txt"))
    for path, original in zip((config, checkpoint), model, strict=True):
        shutil.copy(original, path)
    other.write_text("a.mp4 0\n")
    target = tmp_path / f"result{SUFFIXES.get(command, '.png')}"
    places = dict(CONFIG=config, CHECKPOINT=checkpoint, INPUT=other, FOLDER=tmp_path, TARGET=target)
    words = [str(places.get(word, word)) for word in PLOTS[command]]

    def run(*options: str) -> str:
        try:
            assert main_of(command)([*words, *options]) != 0
        except (ValueError, OSError) as error:
            return str(error)
        return capsys.readouterr().err

    target.write_text("old")
    assert f"{target.name} exists already; --force replaces it" in run()
    target.unlink()
    inputs = [path for word, path in places.items() if word in PLOTS[command][:-1]]
    for path in filter(Path.is_file, inputs):
        content = path.read_bytes()
        target.symlink_to(path)
        assert "which is read" in run("--force")
        target.unlink()
        assert path.read_bytes() == content


def test_a_list_of_prepared_videos_does_not_replace_the_list(tiny_videos, tmp_path) -> None:
    (tmp_path / "videos").symlink_to(tiny_videos.root)
    source = tmp_path / "list.txt"
    shutil.copy(tiny_videos.val, source)
    with pytest.raises(ValueError, match=r"list.txt would be written over .*, which is read"):
        prepare_list(source, tmp_path, tmp_path / "videos", workers=1)
    assert source.read_bytes() == tiny_videos.val.read_bytes()


@pytest.mark.parametrize("name", ["list_bad.csv", "list.txt"])
def test_a_list_of_prepared_videos_does_not_replace_another(tiny_videos, tmp_path, name) -> None:
    source, out = tmp_path / "list.txt", tmp_path / "out"
    shutil.copy(tiny_videos.val, source)
    out.mkdir()
    (out / name).write_text("a.mp4 3\n")
    with pytest.raises(FileExistsError, match=f"{name} is no earlier result of"):
        prepare_list(source, out, tiny_videos.root, workers=1)
    assert [path.name for path in out.iterdir()] == [name]
    (out / name).unlink()
    for _ in range(2):
        assert prepare_list(source, out, tiny_videos.root, workers=1) == 0


def test_data_check_does_not_replace_other_lists(main_of, tmp_path) -> None:
    source, clean = tmp_path / "list.txt", tmp_path / "list_clean.txt"
    source.write_text("missing.mp4 0\n")
    clean.write_text("a.mp4 3\n")
    with pytest.raises(FileExistsError, match="list_clean.txt is no earlier result of"):
        main_of("data.check")([str(source), "--workers", "1"])
    assert clean.read_text() == "a.mp4 3\n"
    clean.unlink()
    for _ in range(2):
        assert main_of("data.check")([str(source), "--workers", "1"]) == 1
    assert clean.read_text() == ""


def test_files_of_a_folder_that_is_converted_stay(main_of, tmp_path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_text("old")
    for target in (tmp_path, weights):
        options = ["--to", "huggingface"] if target == tmp_path else []
        with pytest.raises(UserError, match=r"model\.safetensors, which is read"):
            main_of("convert")([str(tmp_path), str(target), *options, "--force"])
    assert weights.read_text() == "old"


def test_a_table_of_failures_of_others_stays(main_of, model, tiny_videos, tmp_path) -> None:
    (tmp_path / "_failed.csv").write_text("of others")
    for command in ("label", "features"):
        with pytest.raises(FileExistsError, match="has results of unknown settings, without"):
            main_of(command)([*model, str(tiny_videos.root), "--out", str(tmp_path)])
    assert (tmp_path / "_failed.csv").read_text() == "of others"


def test_generated_videos_do_not_replace_lists(main_of, tmp_path) -> None:
    (tmp_path / "train.txt").write_text("a.mp4 0\n")
    with pytest.raises(FileExistsError, match="has train.txt already; choose another folder"):
        main_of("lab.generate")([str(tmp_path), "--train", "1", "--val", "1", "--test", "1"])
    assert (tmp_path / "train.txt").read_text() == "a.mp4 0\n"


def test_features_do_not_take_other_files_for_results(
    main_of, model, tiny_videos, tmp_path
) -> None:
    video = tmp_path / "a.mp4"
    shutil.copy(tiny_videos.root / "val_0.mp4", video)
    (tmp_path / "a.csv").write_text("start,end,label\n0,1,red\n")
    options = ["--files", "--every", "4", "--rows", "4", "--out", str(tmp_path)]
    with pytest.raises(FileExistsError, match="has results of unknown settings, without"):
        main_of("features")([*model, str(tmp_path), *options])
    assert (tmp_path / "a.csv").read_text() == "start,end,label\n0,1,red\n"


@pytest.mark.parametrize("command", ["train", "test"])
def test_a_config_in_the_work_dir_stays(command, main_of, model, make_config, tmp_path) -> None:
    """MMEngine writes the whole config there, under the same name."""
    config = make_config("mine", train_cfg=dict(max_epochs=1))
    mine = tmp_path / "mine.py"
    mine.write_text(f"# why it is so\n{Path(config).read_text()}")
    words = [str(mine), *([model[1]] if command == "test" else ["--no-validate"])]
    assert not main_of(command)([*words, "--work-dir", str(tmp_path)])
    assert mine.read_text().startswith("# why it is so\n")
    assert not main_of(command)([*words, "--work-dir", str(tmp_path / "other")])
    assert (tmp_path / "other" / "mine.py").is_file()
