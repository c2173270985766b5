"""What the demo writes, and what it never writes over."""

import fcntl
import os
import shutil
from collections.abc import Iterator

import pytest
import torch

from mmvidformer.apis import Recognizer
from mmvidformer.data.shards.index import INDEX
from mmvidformer.errors import UserError
from tests.cli.demo_runs import demo, read_lines


@pytest.mark.parametrize(("option", "name"), [("--out", "a_b_mp4"), ("--timeline", "a_b_mp4_tim")])
def test_two_videos_with_one_result_are_refused(
    main_of, model, tiny_videos, tmp_path, option, name
) -> None:
    root = tmp_path / "videos"
    root.mkdir()
    for video in ("a.b.mp4", "a_b.mp4"):
        (root / video).symlink_to(tiny_videos.root / "val_0.mp4")
    with pytest.raises(
        ValueError, match=rf"a\.b\.mp4 and {option} of \S+a_b\.mp4 would both be .*{name}"
    ):
        demo(main_of, model, root, option, tmp_path / "out")


def test_features_of_two_videos_in_one_file_are_refused(
    main_of, model, tiny_videos, tmp_path
) -> None:
    root, out = tmp_path / "videos", tmp_path / "out"
    root.mkdir()
    for video in ("a.avi", "a.mp4"):
        (root / video).symlink_to(tiny_videos.root / "val_0.mp4")
    command = [*model, str(root), "--out", str(out), "--files", "--every", "4"]
    with pytest.raises(ValueError, match=r"a\.avi and \S+a\.mp4 would both be written to .*a\.csv"):
        main_of("features")([*command, "--rows", "4"])
    assert not list(out.glob("*.csv"))
    assert main_of("features")(command) == 0
    assert sorted(path.name for path in out.glob("*.npz")) == ["a.avi.npz", "a.mp4.npz"]


@pytest.mark.parametrize("option", ["--out", "--csv", "--json", "--timeline", "--windows"])
@pytest.mark.parametrize("read", ["video", "truth", "classes", "config", "checkpoint"])
def test_nothing_that_is_read_is_written_over(
    main_of, model, tiny_videos, tmp_path, option, read
) -> None:
    config, checkpoint, video = (tmp_path / name for name in ("config.py", "a.pth", "a.mp4"))
    for path, original in zip((config, checkpoint), model, strict=True):
        shutil.copy(original, path)
    shutil.copy(tiny_videos.root / "val_0.mp4", video)
    truth, names = tmp_path / "truth.csv", tmp_path / "names.txt"
    truth.write_text("video,start,end,label\na.mp4,0,1,red\n")
    names.write_text("red\ngreen\nblue\n")
    files = dict(video=video, truth=truth, classes=names, config=config, checkpoint=checkpoint)
    suffix = {"--out": ".mp4", "--timeline": ".png"}.get(option, ".csv")
    target = tmp_path / f"link{suffix}"
    target.symlink_to(files[read])
    contents = {path: path.read_bytes() for path in files.values()}
    options = ["--window", 1, "--classes", names, option, target]
    if option != "--windows":
        options += ["--truth", truth] + ["--timeline", tmp_path / "t.png"] * (
            option != "--timeline"
        )
    elif read == "truth":
        options[-1:] = [target, "--boxes", truth]  # which it refuses, but not before it looks
    with pytest.raises((ValueError, SystemExit)):
        demo(main_of, (str(config), str(checkpoint)), video, *options, "--force")
    assert {path: path.read_bytes() for path in files.values()} == contents


def test_results_are_replaced_only_with_force_and_when_they_are_whole(
    main_of, model, tiny_videos, tmp_path, monkeypatch, capsys
) -> None:
    video, film, rows = tiny_videos.root / "val_0.mp4", tmp_path / "a.mp4", tmp_path / "a.csv"
    options = ["--window", 1, "--out", film, "--csv", rows]
    assert demo(main_of, model, video, *options) == 0
    old = film.read_bytes(), rows.read_bytes()
    with pytest.raises(FileExistsError, match=r"a\.csv exists already; --force replaces it"):
        demo(main_of, model, video, *options)
    answers = Recognizer.answers

    def interrupted(self: Recognizer, *args: object, **options: object) -> Iterator:
        yield next(answers(self, *args, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(Recognizer, "answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo(main_of, model, video, *options, "--force")
    assert (film.read_bytes(), rows.read_bytes()) == old
    assert f"the rows so far are in {rows}.part" in capsys.readouterr().err
    assert (tmp_path / "a.csv.part").read_text().startswith("video,start,end,shot,label,score\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.csv.part", "a.mp4"]
    (tmp_path / "a.csv.part").unlink()
    monkeypatch.undo()
    assert demo(main_of, model, video, *options, "--force", "--topk", 1) == 0
    assert film.read_bytes() != old[0] and rows.read_bytes() == old[1]


def test_films_are_not_written_among_their_sources(main_of, model, folder, tmp_path) -> None:
    """Nor into the folder of a video, unless the film is named."""
    (tmp_path / "link").symlink_to(folder)
    video = folder / "0" / "clip.mp4"
    for source, out in (
        (folder, folder),
        (folder, folder / "films"),
        (folder, folder / "film.mp4"),
        (folder, tmp_path / "link" / "films"),
        (video, folder / "0"),
        (video, tmp_path / "link" / "0"),
    ):
        with pytest.raises(ValueError, match="whose films would be sources of the next run"):
            demo(main_of, model, source, "--out", out)
    assert demo(main_of, model, video, "--out", folder / "0" / "film.mp4") == 0
    assert demo(main_of, model, video, "--out", folder / "0" / "films") == 0
    names = {path.name for path in (folder / "0").rglob("*.mp4")}
    assert names == {"clip.mp4", "film.mp4", "clip_mp4.mp4"}


def test_two_outputs_in_one_file_are_refused(main_of, model, tiny_videos, tmp_path) -> None:
    video, rows = tiny_videos.root / "val_0.mp4", tmp_path / "rows.csv"
    same = tmp_path / "sub" / ".." / "rows.csv"
    (tmp_path / "sub").mkdir()
    for first, second in (("--json", "--csv"), ("--csv", "--label-studio")):
        with pytest.raises(UserError, match=f"{first} and {second} would both be written to"):
            demo(main_of, model, video, second, rows, first, same)
    assert not rows.exists()


def test_films_in_the_current_folder(main_of, model, tiny_videos, tmp_path, monkeypatch) -> None:
    """Its path is that of no film."""
    monkeypatch.chdir(tmp_path)
    video = tiny_videos.root / "val_0.mp4"
    assert demo(main_of, model, video, "--out", ".") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["val_0_mp4.mp4"]


def test_shards_are_for_labels(main_of, model, tiny_videos, tmp_path) -> None:
    shards = tmp_path / "shards"
    assert not main_of("data.shard")([str(tiny_videos.val), "--out", str(shards)])
    with pytest.raises(ValueError, match="local files are read here, not shards"):
        demo(main_of, model, next(shards.rglob(INDEX)).parent)


@pytest.mark.parametrize("names", [("films", "pictures"), ("films.d", "pictures.d")])
def test_a_folder_of_results_of_one_video(main_of, model, tiny_videos, tmp_path, names) -> None:
    """A name without a suffix is a folder, and a folder that is there is one."""
    films, pictures = (tmp_path / name for name in names)
    if films.suffix:
        films.mkdir()
        pictures.mkdir()
    options = ["--window", 1, "--out", films, "--timeline", pictures]
    assert demo(main_of, model, tiny_videos.root / "val_0.mp4", *options) == 0
    assert [path.name for path in films.iterdir()] == ["val_0_mp4.mp4"]
    assert [path.name for path in pictures.iterdir()] == ["val_0_mp4_timeline.png"]


def test_rows_of_one_video_are_written_as_they_come(
    main_of, model, tiny_videos, tmp_path, monkeypatch
) -> None:
    """Ctrl-C at the third of four windows."""
    answers = Recognizer.answers

    def interrupted(self: Recognizer, *args: object, **options: object) -> Iterator:
        predictions = answers(self, *args, **options)
        yield next(predictions)
        yield next(predictions)
        raise KeyboardInterrupt

    monkeypatch.setattr(Recognizer, "answers", interrupted)
    lines, rows = tmp_path / "a.jsonl", tmp_path / "a.csv"
    options = ["--window", 0.5, "--stride", 0.5, "--json", lines, "--csv", rows]
    with pytest.raises(KeyboardInterrupt):
        demo(main_of, model, tiny_videos.root / "val_0.mp4", *options)
    assert [[row["start"], row["end"]] for row in read_lines(lines)] == [[0, 0.5], [0.5, 1]]
    assert rows.read_text().splitlines()[-1].split(",")[2] == "1.0"


def test_rows_of_other_settings_are_not_continued(main_of, model, tiny_videos, tmp_path) -> None:
    video, table, names = tiny_videos.root / "val_0.mp4", tmp_path / "w.csv", tmp_path / "names.txt"
    names.write_text("uno\ndue\ntre\n")
    options = ["--window", 1, "--windows", table]
    assert demo(main_of, model, video, *options) == 0
    rows = table.read_bytes()
    other_model = (model[0], str(tmp_path / "other.pth"))
    weights = torch.load(model[1])
    weights["state_dict"]["cls_head.fc_cls.bias"] += 1
    torch.save(weights, other_model[1])
    for other, more, setting in (
        (model, ["--classes", names], "classes"),
        (model, ["--cuts", "none"], "cuts"),
        (model, ["--cfg-options", "model.cls_head.dropout_ratio=0.25"], "config"),
        (other_model, [], "checkpoint"),
    ):
        with pytest.raises(FileExistsError, match=rf"results of other settings: {setting} \("):
            demo(main_of, other, video, *options, *more)
    (tmp_path / "w.csv.settings.json").unlink()
    with pytest.raises(FileExistsError, match="w.csv has results of unknown settings"):
        demo(main_of, model, video, *options)
    assert table.read_bytes() == rows
    for text in ("video,start,end,label\na.mp4,0,1,red\n", "notes without an end of the line"):
        table.write_text(text)  # annotations, or something else
        with pytest.raises(
            (FileExistsError, ValueError), match="use another file|unknown settings"
        ):
            demo(main_of, model, video, *options)
        assert table.read_text() == text


def test_names_that_are_no_text_are_spelled(main_of, model, tiny_videos, tmp_path, capfd) -> None:
    video = tmp_path / os.fsdecode(b"caf\xe9.mp4")
    shutil.copy(tiny_videos.root / "val_0.mp4", video)
    spelled = str(tmp_path / r"caf\xe9.mp4")
    lines, rows, table, film = (tmp_path / name for name in ("a.jsonl", "a.csv", "w.csv", "a.mp4"))
    options = ["--window", 1, "--json", lines, "--csv", rows, "--out", film]
    assert demo(main_of, model, video, *options, "--timeline", tmp_path / "a.png") == 0
    assert {line["video"] for line in read_lines(lines)} == {spelled}
    assert rows.read_text().splitlines()[1].startswith(f"{spelled},0.0,")
    for _ in range(2):
        assert demo(main_of, model, video, "--window", 1, "--windows", table) == 0
        assert table.read_text().count(spelled) == 3
    assert f"{spelled}: 3 windows" in capfd.readouterr().out


def test_rows_are_added_to_a_file_that_one_process_writes(
    main_of, model, tiny_videos, tmp_path
) -> None:
    video, table = tiny_videos.root / "val_0.mp4", tmp_path / "w.csv"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is no file, to which rows could be added"):
        demo(main_of, model, video, "--windows", tmp_path / "pipe")
    with table.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match=r"another process writes to .*w\.csv"):
            demo(main_of, model, video, "--windows", table)
