"""The page in the browser: its limits, and the served page as a client sees it."""

import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.convert import published
from mmvidformer.datasets.decoding.readers import READERS, open_video
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.finetune.tasks import set_task
from mmvidformer.registry import MODELS
from mmvidformer.visualization.videos import VideoOutput
from mmvidformer.web import MAX_PIXELS, build_page, check_video, classes_of
from tests.datasets.decoding.numbered_videos import write as encode

OWN = "tiny (3 classes: red, green, blue)"


def write(path: Path, frames: int, size: int = 32) -> Path:
    with VideoOutput(path, fps=10) as output:
        for number in range(frames):
            output.add(np.full((size, 2 * size, 3), 5 * number % 255, np.uint8))
    return path


def test_what_the_page_shows_of_values_and_segments() -> None:
    names = {"class": ["a", "b"]}
    rows = [{"class": np.array(row)} for row in ([0.5, 0.0], [0.25, 1.0])]
    values = [Prediction(row, {}, names, kind="value") for row in rows]
    assert classes_of(values) == "a 0.375, b 0.5"
    segments = [Prediction(row, row, names, kind="segment") for row in rows]
    assert classes_of(segments) == {"b": 1.0, "a": 0.5}
    boxes = [replace(one, kind="labels", box=(0, 0, 1, 1)) for one in segments]
    assert classes_of(boxes) == {"b": 1.0, "a": 0.5}
    assert classes_of([]) == "nothing found"


def test_only_videos_within_the_limits_are_accepted(tmp_path: Path, monkeypatch) -> None:
    video = write(tmp_path / "two_seconds.mp4", frames=20)
    assert check_video(str(video), 1, 2) == (20, pytest.approx(10))
    with pytest.raises(ValueError, match="at most 0.0001 MB, got 0.0 MB"):
        check_video(str(video), 1e-4, 2)
    with pytest.raises(ValueError, match="at most 1.9 s, got 2.0 s"):
        check_video(str(video), 1, 1.9)
    monkeypatch.setattr("mmvidformer.web.MAX_PIXELS", 2047)
    monkeypatch.setattr(READERS["pyav"], "_decode", None)  # nothing is decoded
    with pytest.raises(ValueError, match="at most 2047 pixels, got 64x32"):
        check_video(str(video), 1, 2)
    (tmp_path / "damaged.mp4").write_bytes(video.read_bytes()[:500])
    with pytest.raises(ValueError, match="cannot read .*damaged.mp4 as a video: End of file"):
        check_video(str(tmp_path / "damaged.mp4"), 1, 2)


def test_classes_are_the_mean_of_the_windows() -> None:
    names = {"verb": ["cut", "mix"], "noun": ["egg", "pan"]}
    windows = [
        Prediction({}, {"verb": np.array(verb), "noun": np.array(noun)}, names)
        for verb, noun in (([0.5, 0.5], [0.25, 0.75]), ([0.25, 0.75], [0.75, 0.25]))
    ]
    found = classes_of(windows, k=1)
    assert found == {"verb: mix": 0.625, "noun: egg": 0.5}


def test_mistakes_are_named_before_a_model_is_loaded(load, capsys, monkeypatch) -> None:
    tool = load("web")
    with pytest.raises(SystemExit):
        tool.main(["--config", "vivit_fe_k400"])
    assert "--config and --checkpoint go together" in capsys.readouterr().err
    monkeypatch.setattr(tool, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match='pip install "gradio'):
        tool.main([])


@pytest.fixture(scope="module")
def served(tmp_path_factory, tiny_videos, run) -> Iterator[tuple]:
    """A served page with a tiny model; gives its port, a folder, config and weights.

    At the end nothing of its files may be left.
    """
    pytest.importorskip("gradio")
    folder = tmp_path_factory.mktemp("web")
    cfg = Config.fromfile(Path(__file__).parent / "tools" / "tiny_vivit.py")
    cfg.class_names = ["red", "green", "blue"]
    config, weights = folder / "tiny.py", folder / "tiny.pth"
    cfg.dump(config)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(cfg.model).state_dict()}, weights)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    (folder / "tmp").mkdir()
    command = [sys.executable, "-m", "mmvidformer", "web", "--config", config]
    command += ["--checkpoint", weights, "--port", port, "--max-seconds", 3, "--max-mb", 0.5]
    process = run(*command, TMPDIR=folder / "tmp")
    for _ in range(1200):
        try:
            urlopen(f"http://127.0.0.1:{port}", timeout=10).close()
            break
        except OSError:
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.1)
    yield port, folder, str(config), str(weights)
    assert list((folder / "tmp").glob("mmvidformer_web_*"))
    process.send_signal(signal.SIGTERM)
    try:
        printed, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in printed
    assert not list((folder / "tmp").glob("mmvidformer_web_*"))


@pytest.fixture(scope="module")
def client(served):
    from gradio_client import Client

    url, folder = f"http://127.0.0.1:{served[0]}", str(served[1] / "downloads")
    return Client(url, verbose=False, download_files=folder)


def submit(client, served, path: object) -> list:
    from gradio_client import handle_file

    given = path if isinstance(path, dict) else handle_file(path)
    job = client.submit(OWN, given, api_name="/predict")
    job.result(timeout=60)
    return job.outputs()


def test_published_models_can_be_chosen(client, served) -> None:
    (choices,) = (
        [value for _, value in part["props"]["choices"]]
        for part in client.config["components"]
        if part["type"] == "dropdown"
    )
    assert choices[:2] == [OWN, "camera_motion (Apache-2.0)"]
    assert "timesformer_b_k400 (CC-BY-NC-4.0)" in choices
    assert len(choices) == 1 + sum(bool(row.config) for row in published.rows())


def test_a_video_gets_classes_timeline_and_rollout(client, served, tiny_videos) -> None:
    video = tiny_videos.root / "val_0.mp4"
    first, last = submit(client, served, video)
    (expected,) = Recognizer(*served[2:], clips=1).timeline(video)
    _, name, probability = expected.top(1)[0]
    assert first[0]["label"] == name
    assert first[0]["confidences"][0]["confidence"] == pytest.approx(probability, abs=1e-3)
    assert first[1]["plot"].startswith("data:image/")
    rollout = last[2]["video"] if isinstance(last[2], dict) else last[2]
    reader = open_video(rollout)
    assert len(reader) == 4 and reader.get_avg_fps() == 4
    assert reader.get_batch([0])[0].shape[1] > 1000  # frame, heat map and classes


def test_what_is_wrong_is_told_in_a_line(client, served, tiny_videos, tmp_path) -> None:
    from gradio_client.exceptions import AppError

    assert client.submit(OWN, None, api_name="/predict").outputs() == []
    content = (tiny_videos.root / "val_0.mp4").read_bytes()
    (tmp_path / "damaged.mp4").write_bytes(content[:700])
    with pytest.raises(AppError) as caught:
        submit(client, served, tmp_path / "damaged.mp4")
    assert str(caught.value).startswith("cannot read damaged.mp4 as a video: ")
    with pytest.raises(AppError, match="at most 3 s, got 4.0 s"):
        submit(client, served, write(tmp_path / "long.mp4", frames=40))
    (tmp_path / "large.mp4").write_bytes(bytes(600_000))
    with pytest.raises(Exception, match="(?i)size|413"):
        submit(client, served, tmp_path / "large.mp4")


def test_frames_are_limited_and_no_other_file_is_read(client, served, tiny_videos, tmp_path):
    from gradio_client.exceptions import AppError

    other, grows = tmp_path / "other.ts", tmp_path / "grows.ts"
    encode(other, "libx264", range(1))
    encode(grows, "libx264", range(6), size=(4096, 2320), preset="ultrafast")
    huge = grows.read_bytes()
    for name, content, message in (
        ("huge.ts", huge, "frames must have at most 9437184 pixels"),
        ("grows.ts", other.read_bytes() + huge, "cannot read grows.ts as a video"),
        (
            "list.m3u8",
            f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1,\n{other}\n",
            "its format is none of",
        ),
        ("list.mp4", f"ffconcat version 1.0\nfile {other}\n", "its format is none of"),
    ):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(AppError, match=message) as caught:
            submit(client, served, path)
        assert "\n" not in str(caught.value) and str(served[1]) not in str(caught.value)


def test_neither_paths_nor_addresses_of_the_browser_are_opened(client, served, web) -> None:
    from gradio_client.exceptions import AppError

    address = web.add("/video.mp4", b"x" * 100)
    for path, message in ((address, "instead of giving an address"), (served[2], None)):
        with pytest.raises(AppError, match=message):
            submit(client, served, {"path": path, "meta": {"_type": "gradio.FileData"}})
    assert not web.fetched


def answers(task: str, folder: Path, video: Path) -> tuple[Recognizer, list]:
    """A model of a task with random weights as the page has it, and what the page answers."""
    pytest.importorskip("gradio")
    cfg = Config.fromfile(Path(__file__).parent / "tools" / "tiny_vivit.py")
    cfg.model.backbone.update(scheme="spacetime", temporal_depth=4, stem=dict(tubelet=(2, 8, 8)))
    set_task(cfg, task, VideoLists(folder, ("walk", "sit"), {}, ","))
    set_video_backend(cfg, "pyav", max_pixels=MAX_PIXELS)
    torch.manual_seed(0)
    recognizer = Recognizer(cfg, None, clips=1)
    page = build_page({"own": lambda: recognizer}, str(video), max_mb=1, max_seconds=9)
    (predict,) = (event.fn for event in page.fns.values() if event.api_name == "predict")
    found = predict("own", str(video))  # files are there until the next answer
    return recognizer, [(*one[:2], one[2] and list(frames_of(one[2]))) for one in found]


def frames_of(film: str) -> np.ndarray:
    reader = open_video(film)
    return np.stack(reader.get_batch(range(len(reader))))


def test_a_model_of_boxes_shows_persons(tiny_videos, tmp_path, monkeypatch) -> None:
    where = (0.5, 0.25, 1.0, 1.0)
    detector = SimpleNamespace(moments=lambda video: {1: [where]})
    monkeypatch.setattr("mmvidformer.visualization.annotate.load_detector", lambda _: detector)
    video = tiny_videos.root / "val_1.mp4"  # 24 green frames of 64 x 32 pixels, 2 s
    recognizer, ((classes, timeline, film),) = answers("boxes", tmp_path, video)
    (box,) = recognizer.boxes(video, 1, [where])
    assert classes == {name: pytest.approx(p) for _, name, p in box.top()} and timeline is None
    assert len(film) == 24 and film[0].shape == (360, 720, 3)
    corners = [image[93:103, 359:364].mean(axis=(0, 1)) for image in film]
    blue = [bool(corner[2] > corner[1]) for corner in corners]
    assert blue == [6 <= number <= 18 for number in range(24)]  # half a second around it


def test_a_model_of_frames_shows_its_steps(tiny_videos, tmp_path) -> None:
    video = tiny_videos.root / "val_0.mp4"
    recognizer, ((classes, timeline, film),) = answers("frames", tmp_path, video)
    steps = [one.probabilities["class"] for one in recognizer.timeline(video)]
    assert classes == pytest.approx(dict(zip(("walk", "sit"), np.mean(steps, axis=0), strict=True)))
    assert timeline.axes and film is None


def test_only_this_machine_is_served(served) -> None:
    with socket.socket() as other:
        # An address of this machine that reaches servers at 0.0.0.0, but not at 127.0.0.1.
        assert other.connect_ex(("127.0.0.2", served[0])) != 0
