"""The demo, the strips and the benchmark of streams."""

import csv
import json
from pathlib import Path

import cv2
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from benchmarks import stream
from mmvidformer import get_config
from mmvidformer.apis import Capture, Recognizer
from mmvidformer.apis.pipeline import normalize
from mmvidformer.config.fragments import merge
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.registry import MODELS
from mmvidformer.tasks.annotations import BACKGROUND
from mmvidformer.tasks.table import find_task

NARROW = {
    "model.backbone.channels": 8,
    "model.neck.in_channels": 8,
    "model.neck.channels": [8, 12],
    "model.cls_head.in_channels": 12,
}


def write_model(folder: Path, name: str, **changes: object) -> tuple[str, str]:
    """A narrow variant of a shipped config, and a checkpoint of random weights."""
    cfg: Config = get_config(name)
    cfg.merge_from_dict({**(NARROW if "neck" in cfg.model else {}), **changes})
    cfg.dump(folder / f"{name}.py")
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        state = MODELS.build(cfg.model).state_dict()
    torch.save({"state_dict": state}, folder / f"{name}.pth")
    return str(folder / f"{name}.py"), str(folder / f"{name}.pth")


@pytest.fixture(scope="module")
def early(tmp_path_factory) -> tuple[str, str]:
    return write_model(tmp_path_factory.mktemp("early"), "horst_early_motion")


@pytest.fixture(scope="module")
def causal(tmp_path_factory) -> tuple[str, str]:
    return write_model(tmp_path_factory.mktemp("causal"), "causal_transformer_early_motion")


@pytest.fixture(scope="module")
def unrolling(tmp_path_factory) -> tuple[str, str]:
    options = {"model.cls_head.classifier": "unrolling"}
    folder = tmp_path_factory.mktemp("unrolling")
    return write_model(folder, "horst_anticipation_motion", **options)


@pytest.fixture(scope="module")
def clip(prediction_data: Path) -> str:
    return str(prediction_data / "data" / "motion_phases" / "test" / "test_00001.mp4")


@pytest.fixture(scope="module")
def sequence(prediction_data: Path) -> str:
    (path,) = (prediction_data / "data" / "motion_sequences" / "test").glob("*.mp4")
    return str(path)


def test_demo_writes_each_step(main_of, early, clip, prediction_data, tmp_path) -> None:
    names = prediction_data / "data" / "motion_phases" / "classes.txt"
    out, lines = tmp_path / "new" / "out.mp4", tmp_path / "steps.jsonl"
    options = ["--out", str(out), "--json", str(lines), "--classes", str(names), "--topk", "3"]
    main_of("demo")([*early, clip, *options])
    with Capture(clip) as video:
        expected = list(Recognizer(*early).frame_by_frame(video))
        rate = video.fps / 3
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    seconds = [[0, round(step.seconds, 3)] for step in expected]
    assert [[record["start"], record["end"]] for record in found] == seconds
    for record, step in zip(found, expected, strict=True):
        assert "ahead" not in record and record["video"] == clip
        top = [(best["label"], pytest.approx(best["score"], abs=1e-6)) for best in record["top"]]
        (prediction,) = step.predictions
        labels = names.read_text().splitlines()
        assert [(labels[i], share) for i, _, share in prediction.top(3)] == top
    video = cv2.VideoCapture(str(out))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == len(found)
    assert video.get(cv2.CAP_PROP_FPS) == pytest.approx(rate)
    assert video.read()[1].std() > 20


def test_demo_of_a_causal_transformer(main_of, causal, clip, tmp_path) -> None:
    main = main_of("demo")
    lines = tmp_path / "steps.jsonl"
    main([*causal, clip, "--json", str(lines), "--topk", "2"])
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    with Capture(clip) as video:
        expected = list(Recognizer(*causal).frame_by_frame(video))
    seconds = [[0, round(step.seconds, 3)] for step in expected]
    assert [[record["start"], record["end"]] for record in found] == seconds
    for record, step in zip(found, expected, strict=True):
        assert record["label"] == step.predictions[0].label
    with pytest.raises(ValueError, match="the model has no HORST layers to look at"):
        main_of("lab.plot.horst")([*causal, clip, "--out-dir", str(tmp_path)])


def test_online_action_detection_of_a_camera(
    main_of, prediction_data: Path, tmp_path: Path, clip: str, monkeypatch
) -> None:
    """A causal model of frames, as ``--task frames`` makes it, answers for each frame as it comes.

    The answers are those for the whole clip.
    """
    cfg = get_config("causal_transformer_early_motion")
    cfg.test_dataloader.dataset.pipeline[1].frame_interval = 1
    monkeypatch.chdir(prediction_data)
    lists = VideoLists(tmp_path, ("left", "right", BACKGROUND), {}, ",")
    merge(cfg, find_task("frames").fragment(cfg, lists))
    cfg.dump(tmp_path / "online.py")
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(cfg.model)
    torch.nn.init.normal_(model.cls_head.fc_cls.weight, std=1.0)
    torch.save({"state_dict": model.state_dict()}, tmp_path / "online.pth")
    files = [str(tmp_path / "online.py"), str(tmp_path / "online.pth")]
    camera = "mmvidformer.cli.answering.Capture"
    monkeypatch.setattr(camera, lambda *_: Capture(clip))
    out = tmp_path / "answers.json"
    assert main_of("demo")([*files, "7", "--json", str(out)]) == 0
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    recognizer = Recognizer(*files)
    with Capture(clip) as video:
        frames = list(recognizer.frame_runner.pipeline.read(video))
    assert len(answers) == len(frames) >= 8  # more than the past
    inputs = torch.cat([frame.inputs for frame in frames], dim=2)
    with torch.no_grad():
        features = recognizer.model.extract_feat(normalize(recognizer.model, inputs)[:, None])[0]
        expected = recognizer.model.cls_head(features)[0].softmax(dim=-1)
    for answer, frame, shares in zip(answers, frames, expected, strict=True):
        span = [answer["start"], answer["end"]]
        assert span == pytest.approx([frame.seconds] * 2, abs=1e-3)
        (names,) = recognizer.names.values()
        assert answer["label"] == names[shares.argmax()]
        assert answer["score"] == pytest.approx(shares.max().item(), abs=1e-5)


def test_demo_prints_all_times_ahead(main_of, unrolling, sequence, capsys) -> None:
    main_of("demo")([*unrolling, sequence, "--json", "-"])
    printed = capsys.readouterr()
    records = [json.loads(line) for line in printed.out.splitlines()]
    assert [[record["start"], record["end"]] for record in records[:24:8]] == [
        [0, 0],
        [0, 0.25],
        [0, 0.5],
    ]
    rows = records[40:48]
    assert [row["ahead"] for row in rows] == [k / 4 for k in range(8, 0, -1)]
    assert {task: len(rows[0][f"{task}_top"]) for task in ("action", "verb", "noun")} == {
        "action": 5,
        "verb": 4,
        "noun": 4,
    }
    assert f"{len(records) // 8} steps, " in printed.err


def test_steps_are_printed_and_joined(main_of, early, clip, tmp_path, capsys) -> None:
    """Successive steps of one class are a row; a border is between the steps that it parts."""
    table, picture = tmp_path / "parts.csv", tmp_path / "line.png"
    assert main_of("demo")([*early, clip, "--topk", "1"]) == 0
    printed = capsys.readouterr()
    with Capture(clip) as video:
        steps = list(Recognizer(*early).frame_by_frame(video))
    lines = printed.out.splitlines()
    assert len(lines) == len(steps)
    for line, step in zip(lines, steps, strict=True):
        (prediction,) = step.predictions
        assert line == f"  0.00-{step.seconds:.2f} s: {prediction.text(1)}"
    assert f"{clip}: {len(steps)} steps, " in printed.err
    main_of("demo")([*early, clip, "--csv", str(table), "--timeline", str(picture)])
    labels = [step.predictions[0].top(1)[0][1] for step in steps]
    borders = [
        (before.seconds + after.seconds) / 2
        for before, after, label, other in zip(steps, steps[1:], labels, labels[1:], strict=False)
        if label != other
    ]
    with open(table) as file:
        rows = list(csv.DictReader(file))
    assert [float(row["start"]) for row in rows] == pytest.approx([0, *borders], abs=0.006)
    assert float(rows[-1]["end"]) == pytest.approx(steps[-1].seconds, abs=0.006)
    assert cv2.imread(str(picture)).std() > 5


def test_one_time_ahead_is_printed(main_of, unrolling, sequence, tmp_path, capsys) -> None:
    """That nearest to --ahead; tables have no other, JSON lines have all."""
    table = tmp_path / "parts.csv"
    main_of("demo")([*unrolling, sequence, "--ahead", "0.6", "--topk", "1"])
    lines = capsys.readouterr().out.splitlines()
    with Capture(sequence) as video:
        steps = list(Recognizer(*unrolling).frame_by_frame(video))
    assert len(lines) == len(steps) and all(" s, 0.50 s ahead: " in line for line in lines)
    main_of("demo")([*unrolling, sequence, "--ahead", "0.6", "--csv", str(table)])
    with open(table) as file:
        rows = list(csv.DictReader(file))
    shown = [one for step in steps for one in step.predictions if one.ahead == 0.5]
    labels = [one.top(1)[0][1] for one in shown]
    changes = [label for label, before in zip(labels[1:], labels, strict=False) if label != before]
    assert [row["action"] for row in rows] == [labels[0], *changes]


def test_a_folder_of_a_recurrent_model(main_of, early, clip, tmp_path, capsys) -> None:
    """Bad videos are named; with a window it answers for windows."""
    folder, lines = tmp_path / "videos", tmp_path / "steps.jsonl"
    folder.mkdir()
    (folder / "good.mp4").symlink_to(clip)
    (folder / "bad.mp4").write_bytes(b"no video")
    assert main_of("demo")([*early, str(folder), "--json", str(lines)]) == 1
    failure, *records = [json.loads(line) for line in lines.read_text().splitlines()]
    assert "bad.mp4: it is damaged, cut off, or no video" in failure["error"]
    assert {record["video"] for record in records} == {str(folder / "good.mp4")}
    assert len({record["start"] for record in records}) == 1
    assert main_of("demo")([*early, clip, "--window", "0.8", "--force", "--json", str(lines)]) == 0
    begins = [json.loads(line)["start"] for line in lines.read_text().splitlines()]
    assert begins == sorted(set(begins)) and len(begins) > 2
    assert f"{clip}: {len(begins)} windows" in capsys.readouterr().out


def test_a_table_of_windows_of_a_camera(main_of, causal, sequence, tmp_path, monkeypatch) -> None:
    """A recurrent model answers for windows of 2 s, as of a file."""
    source_of_answers = "mmvidformer.cli.answering.Capture"
    monkeypatch.setattr(source_of_answers, lambda *_: Capture(sequence))
    camera, file = tmp_path / "camera.csv", tmp_path / "file.csv"
    whole = ["--cuts", "none"]  # shapes that take turns are shots
    assert main_of("demo")([*causal, "7", "--windows", str(camera), *whole]) == 0
    assert main_of("demo")([*causal, sequence, "--windows", str(file), *whole]) == 0
    of_camera, of_file = (list(csv.DictReader(table.open())) for table in (camera, file))
    assert len(of_camera) > 1
    for row, expected in zip(of_camera, of_file, strict=False):
        assert [row["start"], row["end"]] == [expected["start"], expected["end"]]
        assert row["label"] == expected["label"]


def test_demo_names_wrong_arguments(main_of, early, unrolling, clip, capsys, monkeypatch) -> None:
    main = main_of("demo")
    for options, message in (
        (["--restart", "0"], "--restart: must be a number above 0, got '0'"),
        (["--topk", "0"], "--topk: must be a whole number of at least 1"),
    ):
        with pytest.raises(SystemExit):
            main([*early, clip, *options])
        assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match="--out is an .mp4 file or a folder, got film.gif"):
        main([*early, clip, "--out", "film.gif"])
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ValueError, match="no display to show a window on"):
        main([*early, clip, "--show"])
    with pytest.raises(ValueError, match="does not fit the model of the config"):
        main([early[0], unrolling[1], clip])
    with pytest.raises(FileNotFoundError, match="gone.mp4 does not exist, and is no camera"):
        main([*early, "gone.mp4"])


def test_strips_of_moments(main_of, unrolling, sequence, tmp_path, capsys) -> None:
    main = main_of("lab.plot.horst")
    main([*unrolling, sequence, "--out-dir", str(tmp_path), "--at", "0.6", "3", "--layer", "0"])
    path = tmp_path / f"{Path(sequence).stem}_mp4_horst.png"
    assert str(path) in capsys.readouterr().out
    picture = cv2.imread(str(path))
    assert picture.shape[1] == int(120 * (9 * 1.6 + 1.2)) and picture.std() > 20
    with pytest.raises(ValueError, match="has no earlier states at 0.1 s"):
        main([*unrolling, sequence, "--out-dir", str(tmp_path), "--at", "0.1", "--force"])


def test_benchmark_of_a_stream(main_of, early, tmp_path, capsys) -> None:
    table = tmp_path / "stream.csv"
    options = ["--minutes", "1.05", "--fps", "4", "--size", "64", "64", "--out", str(table)]
    stream.main([early[0], *options])
    with open(table) as file:
        rows = list(csv.DictReader(file))
    assert [(row["minute"], row["steps"]) for row in rows] == [("1", "80"), ("2", "4")]
    for row in rows:
        assert float(row["peak_mib"]) >= float(row["rss_mib"]) > 50
        assert float(row["wall_ms"]) > 0 and float(row["cpu_ms"]) > 0
    assert cv2.imread(str(table.with_suffix(".png"))).std() > 5
    assert "rss_mib, last minute over first: " in capsys.readouterr().out
