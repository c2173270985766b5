"""The demo on files and folders."""

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.logging import MMLogger, print_log

from mmvidformer.apis import Recognizer
from mmvidformer.cli.answering import Answering
from mmvidformer.video.writer import VideoOutput
from tests.cli.demo_runs import demo, read_lines


def test_options_without_an_effect_are_refused(
    main_of, model, tiny_videos, tmp_path, capsys
) -> None:
    video, truth = tiny_videos.root / "val_0.mp4", tmp_path / "t.csv"
    truth.write_text("video,start,end,label\nval_0.mp4,0,1,red\n")
    for options, message in (
        (["--boxes", truth], "models of windows take no boxes, got .*t.csv"),
        (["--min-score", 0], "models of windows take no min_score, got 0"),
        (["--ahead", 2], "--ahead needs a model that anticipates"),
        (["--truth", truth], "--truth needs --timeline"),
        (["--queue", 3], "--queue needs a camera or an address"),
        (["--patience", 3], "--patience needs a camera or an address"),
        (["--cuts", "none"], "--cuts needs --window or --track"),
        (["--seconds", 2], "--seconds needs a camera or an address, or a recurrent model"),
    ):
        with pytest.raises(ValueError, match=message):
            demo(main_of, model, video, *options)
    for options, message in (
        (["--seconds", "nan"], "--seconds: must be a number above 0"),
        (["--patience", -1], "--patience: must be a whole number of at least 0"),
    ):
        with pytest.raises(SystemExit):
            demo(main_of, model, video, *options)
        assert message in capsys.readouterr().err


def test_true_segments_are_found_by_name_or_missed_aloud(
    main_of, model, tiny_videos, tmp_path, capsys
) -> None:
    folder, picture = tmp_path / "videos", tmp_path / "t.png"
    folder.mkdir()
    shutil.copy(tiny_videos.root / "val_0.mp4", folder / "a.mp4")
    truth, bare, elsewhere = (tmp_path / name for name in ("t.csv", "bare.csv", "else.csv"))
    export, named = tmp_path / "export.json", tmp_path / "named.csv"
    spans = [{"segment": [0, 1], "label": "red"}]
    video = {"subset": "training", "annotations": spans}
    export.write_text(json.dumps({"database": {"a": video, "gone": video}}))
    named.write_text("clip,from,to,what,who\na.mp4,0,1,red,me\na.mp4,1,2,blue,you\n")
    options_of = {
        export: ["--root", folder],
        named: ["--columns", "video=clip", "start=from", "end=to", "label=what", "--only=who=me"],
    }
    rows = "video,start,end,label\n{},0,1,red\n"
    truth.write_text(rows.format("videos/a.mp4"))
    bare.write_text(rows.format(r"C:\films\a.mp4"))
    elsewhere.write_text(rows.format("b.mp4"))
    pictures = {}
    for file in (truth, bare, elsewhere, export, named):
        options = ["--window", 1, "--timeline", picture, "--truth", file, "--force"]
        options += options_of.get(file, [])
        assert demo(main_of, model, folder / "a.mp4", *options) == 0
        pictures[file.name] = picture.read_bytes(), capsys.readouterr().err
    assert pictures["t.csv"][0] == pictures["bare.csv"][0] != pictures["else.csv"][0]
    assert pictures["export.json"][0] == pictures["named.csv"][0] == pictures["t.csv"][0]
    assert "no rows" not in pictures["t.csv"][1] + pictures["bare.csv"][1]
    warning = f"else.csv has no rows for {folder / 'a.mp4'}; it has those of b.mp4"
    assert warning in pictures["else.csv"][1]


def test_an_answer_across_cuts_says_so(main_of, model, tmp_path, capsys) -> None:
    still = np.full((12, 64, 64, 3), 40, np.uint8)
    still[:, 8:20, 10:30] = 200
    for name, frames in (("one", still), ("two", np.concatenate([still, 255 - still]))):
        with VideoOutput(tmp_path / f"{name}.mp4", 12) as file:
            for frame in frames:
                file.add(frame)
    assert demo(main_of, model, tmp_path / "one.mp4") == 0
    assert "shots" not in capsys.readouterr().err
    assert demo(main_of, model, tmp_path / "two.mp4") == 0
    assert "two.mp4: one answer for 2 shots; with --window" in capsys.readouterr().err
    assert demo(main_of, model, tmp_path / "two.mp4", "--window", 1) == 0
    assert "shots" not in capsys.readouterr().err


def test_demo_of_a_folder(main_of, model, folder, tmp_path, capsys) -> None:
    records, videos = tmp_path / "new" / "predictions.json", tmp_path / "annotated"
    assert demo(main_of, model, folder, "--json", records, "--out", videos, "--topk", 2) == 1
    found = {one["video"]: one for one in read_lines(records)}
    assert list(found) == sorted(map(str, folder.rglob("*.mp4")))
    assert "bad.mp4: " in found[str(folder / "bad.mp4")]["error"]
    recognizer = Recognizer(*model)
    printed = capsys.readouterr()
    assert "tiny (ViViT) on cpu, optimized for inference\n" in printed.err
    assert printed.err.endswith(f"1 of 3 videos failed:\n{folder / 'bad.mp4'}\n")
    assert "[Errno" not in printed.err
    for number in range(2):
        file = folder / str(number) / "clip.mp4"
        top = recognizer(file).top(2)
        assert [best["label"] for best in found[str(file)]["top"]] == [name for _, name, _ in top]
        assert f"{file}: {top[0][1]} {top[0][2]:.0%}" in printed.out
        video = cv2.VideoCapture(str(videos / str(number) / "clip_mp4.mp4"))
        assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 24
        assert video.get(cv2.CAP_PROP_FRAME_HEIGHT) >= 360


@pytest.mark.parametrize("name", ["--json", "--csv"])
def test_rows_are_written_as_they_come(
    main_of, model, folder, tmp_path, capsys, monkeypatch, name
) -> None:
    """Ctrl-C at the second video: the first, of which there are four windows, is kept."""
    shutil.copy(folder / "0" / "clip.mp4", folder / "0" / "first.mp4")
    answers = Recognizer.answers

    def interrupted(self: Recognizer, video: Path, *args: object, **options: object) -> Iterator:
        if video.name == "first.mp4":
            raise KeyboardInterrupt
        return answers(self, video, *args, **options)

    monkeypatch.setattr(Recognizer, "answers", interrupted)
    file = tmp_path / "new" / "rows"
    with pytest.raises(KeyboardInterrupt):
        demo(main_of, model, folder, name, file, "--window", 0.5, "--stride", 0.5)
    first, rows = folder / "0" / "clip.mp4", file.read_text().splitlines()
    if name == "--json":
        assert [json.loads(row)["start"] for row in rows] == [0, 0.5, 1, 1.5]
        assert {json.loads(row)["video"] for row in rows} == {str(first)}
    else:
        assert rows[0] == "video,start,end,shot,label,score" and len(rows) > 1
        assert {row.partition(",")[0] for row in rows[1:]} == {str(first)}
        assert rows[1].split(",")[1] == "0.0" and rows[-1].split(",")[2] == "2.0"
    assert capsys.readouterr().out == f"{first}: 4 windows\n"


def test_parts_are_printed_below_their_video(main_of, model, folder, capsys) -> None:
    assert demo(main_of, model, folder, "--window", 1, "--stride", 0.5, "--topk", 1) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{folder / '0' / 'clip.mp4'}: 3 windows"
    assert [line[:13] for line in lines[1:4]] == ["  0.00-1.00 s", "  0.50-1.50 s", "  1.00-2.00 s"]
    assert len(lines) == 8


def test_demo_of_windows(main_of, model, tiny_videos, tmp_path) -> None:
    video, names = tiny_videos.root / "val_0.mp4", tmp_path / "names.txt"
    names.write_text("uno\ndue\ntre\n")
    file, line, out = (tmp_path / name for name in ("predictions.json", "line.png", "out.mp4"))
    options = ["--window", 1, "--stride", 0.5, "--json", file, "--timeline", line]
    assert demo(main_of, model, video, *options, "--classes", names, "--out", out) == 0
    records = read_lines(file)
    assert [[row["start"], row["end"]] for row in records] == [[0, 1], [0.5, 1.5], [1, 2]]
    assert {best["label"] for best in records[0]["top"]} == {"uno", "due", "tre"}
    assert cv2.imread(str(line)).std() > 5
    assert cv2.VideoCapture(str(out)).get(cv2.CAP_PROP_FRAME_COUNT) == 24


def test_a_table_of_windows_goes_on_where_it_stopped(
    main_of, model, folder, tmp_path, capsys, monkeypatch
) -> None:
    table, computed = tmp_path / "new" / "windows.csv", []
    run = Recognizer.run_samples
    monkeypatch.setattr(
        Recognizer, "run_samples", lambda *a, **k: computed.append(1) or run(*a, **k)
    )
    options = ["--window", 1, "--stride", 0.5, "--windows", table]
    assert demo(main_of, model, folder, *options) == 1  # one is bad
    whole, rows = table.read_bytes(), table.read_text().splitlines()
    assert rows[0] == "video,start,end,shot,label,score" and len(rows) == 7 == 1 + len(computed)
    first = Recognizer(*model)
    (expected, *_) = first.timeline(folder / "0" / "clip.mp4", 1, 0.5)
    _, name, share = expected.top(1)[0]
    assert rows[1] == f"{folder / '0' / 'clip.mp4'},0.0,1.0,0,{name},{round(share, 6)}"
    for end, left in ((len(whole), 0), (whole.rindex(b"\n", 0, -1) - 9, 2), (9, 6)):
        table.write_bytes(whole[:end])
        computed.clear()
        assert demo(main_of, model, folder, *options) == 1
        assert (table.read_bytes(), len(computed)) == (whole, left)
    computed.clear()
    table.write_bytes(whole + b"\n")  # as editors do
    assert demo(main_of, model, folder, *options) == 1 and not computed
    options[3] = 0.25
    with pytest.raises(FileExistsError, match=r"results of other settings: stride \("):
        demo(main_of, model, folder, *options)
    assert table.read_bytes() == whole + b"\n"
    table.write_text("video,label\na.mp4,left\n")
    with pytest.raises(ValueError, match="windows.csv is no table of windows; use another file"):
        demo(main_of, model, folder, *options)
    assert table.read_text() == "video,label\na.mp4,left\n"
    with pytest.raises(SystemExit):
        demo(main_of, model, folder, *options, "--json", tmp_path / "x.json")


def test_demo_names_wrong_arguments_before_it_loads_the_model(
    main_of, model, tmp_path, monkeypatch
) -> None:
    model = (model[0], "none.pth")
    with pytest.raises(FileNotFoundError, match="gone.mp4 does not exist, and is no camera"):
        demo(main_of, model, "gone.mp4")
    with pytest.raises(FileNotFoundError, match="has no videos"):
        demo(main_of, model, tmp_path)
    (tmp_path / "names.txt").write_text("uno\n")
    (tmp_path / "x.mp4").touch()
    for wrong in (["--window", "0"], ["--stride", "nan"]):
        with pytest.raises(SystemExit):
            demo(main_of, model, tmp_path / "x.mp4", *wrong)
    with pytest.raises(ValueError, match="--timeline is a picture such as .png, or a folder, got"):
        demo(main_of, model, tmp_path / "x.mp4", "--timeline", tmp_path / "x.foo")
    with pytest.raises(ValueError, match="'class' has 3 classes, but 1 names"):
        demo(main_of, model, tmp_path / "x.mp4", "--classes", tmp_path / "names.txt")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ValueError, match="no display to show a window on"):
        demo(main_of, model, tmp_path / "x.mp4", "--show")


def test_scores_of_segments_are_for_models_of_segments(main_of, model, tiny_videos) -> None:
    with pytest.raises(ValueError, match="models of windows take no min_score, got"):
        demo(main_of, model, tiny_videos.root / "val_0.mp4", "--window", 1, "--min-score", 0.9)


def test_several_sources_with_a_checkpoint_or_without(
    main_of, model, tiny_videos, folder, tmp_path, capsys
) -> None:
    """The word before them is the checkpoint, unless it is a video, a folder or a camera."""
    config = tmp_path / "random.py"
    config.write_text(Path(model[0]).read_text())
    videos = [str(tiny_videos.root / f"val_{i}.mp4") for i in range(2)]
    lines, out = tmp_path / "answers.jsonl", tmp_path / "films"
    options = ["--json", str(lines), "--out", str(out)]
    assert main_of("demo")([*model, *videos, str(folder), *options]) == 1
    found = read_lines(lines)
    clips = [str(folder / str(number) / "clip.mp4") for number in range(2)]
    assert sorted(one["video"] for one in found) == sorted([*videos, *clips, f"{folder}/bad.mp4"])
    films = sorted(str(path.relative_to(out)) for path in out.rglob("*.mp4"))
    assert films == ["0/clip_mp4.mp4", "1/clip_mp4.mp4", "val_0_mp4.mp4", "val_1_mp4.mp4"]
    assert "1 of 5 videos failed" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match="gone.mp4 does not exist"):
        main_of("demo")([*model, videos[0], "gone.mp4"])
    with pytest.raises(KeyError, match="random"):  # no weights are published for it
        main_of("demo")([str(config), *videos])
    with pytest.raises(ValueError, match="--subtitles are of one video, got 2 sources"):
        main_of("demo")([*model, *videos, "--subtitles", str(tmp_path / "a.srt")])


def test_json_lines_on_the_standard_output(
    main_of, model, tiny_videos, monkeypatch, capsys
) -> None:
    """Alone, whatever MMEngine logs; its log is then where it was."""
    video, logger = tiny_videos.root / "val_0.mp4", MMLogger.get_instance("json lines")
    answer_all, stream = Answering.answer_all, logger.handlers[0].stream

    def warn(answering: Answering) -> None:
        print_log("an alias is deprecated", "current", logging.WARNING)
        answer_all(answering)

    monkeypatch.setattr(Answering, "answer_all", warn)
    assert demo(main_of, model, video, "--window", 1, "--json", "-") == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["video"] for line in printed.out.splitlines()] == [str(video)] * 3
    assert f"{video}: 3 windows" in printed.err and "written: -" not in printed.err
    assert "WARNING - an alias is deprecated" in printed.err
    assert logger.handlers[0].stream is stream


def test_what_only_recurrent_models_have(main_of, model, tiny_videos) -> None:
    option = ["--restart", "1"]
    with pytest.raises(ValueError, match=f"{option[0]} needs .*a recurrent model without windows"):
        demo(main_of, model, tiny_videos.root / "val_0.mp4", *option)
