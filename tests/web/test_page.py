"""The served page as a client sees it."""

import http.client
import json
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import av
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.apis import Recognizer
from mmvidformer.checkpoints import published
from mmvidformer.checkpoints.download import cached_path
from mmvidformer.errors import UserError
from mmvidformer.registry import MODELS
from mmvidformer.video.video import Video
from tests.docs.blocks import read_blocks
from tests.video.numbered_videos import write as encode
from tests.web.test_answers import write

OWN = "own"
ROOT = Path(__file__).parents[2]
HAS_GRADIO = find_spec("gradio") is not None  # to import it takes a second
needs_gradio = pytest.mark.skipif(not HAS_GRADIO, reason="gradio is not installed")


def test_mistakes_are_named_before_a_model_is_loaded(load, capsys, monkeypatch) -> None:
    tool = load("web")
    with pytest.raises(SystemExit):
        tool.main(["--config", "vivit_fe_k400"])
    assert "--config and --checkpoint go together" in capsys.readouterr().err
    for options in (["--int8"], ["--static", "6"], ["--static", "0"]):
        with pytest.raises(SystemExit):
            tool.main(["camera_motion", *options])
        assert "--int8 and --static are for the model of --config" in capsys.readouterr().err
    monkeypatch.setattr("mmvidformer.cli.offering.find_spec", lambda name: None)
    with pytest.raises(ImportError, match='pip install "gradio'):
        tool.main([])


@needs_gradio
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_in_use_is_named(load, host: str) -> None:
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    with socket.create_server((host, 0), family=family) as used:
        port = used.getsockname()[1]
        expected = f"--port {port} of --host {host}: Address already in use; choose another"
        with pytest.raises(UserError, match=expected):
            load("web").main(["camera_motion", "--host", host, "--port", str(port)])


@needs_gradio
@pytest.mark.parametrize("port", [70000, -1])
def test_a_port_out_of_range_is_named(load, port: int) -> None:
    with pytest.raises(UserError, match=f"--port {port} of .*0-65535"):
        load("web").main(["--port", str(port)])


def caches(folder: Path) -> dict[str, str]:
    """Variables of the caches of weights."""
    return {"TORCH_HOME": str(folder / "torch"), "HF_HOME": str(folder / "hub")}


@pytest.fixture(scope="module")
def served(tmp_path_factory, tiny_videos, run) -> Iterator[tuple]:
    """A served page with a tiny model; gives its port, a folder, config and weights.

    At the end nothing of its files may be left.
    """
    if not HAS_GRADIO:
        pytest.skip("gradio is not installed")
    folder = tmp_path_factory.mktemp("web")
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
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
    address = published.by_name()["timesformer_b_k400"].address
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_HOME", caches(folder)["TORCH_HOME"])
        path = cached_path(address)
    path.parent.mkdir(parents=True)
    path.touch()
    command = [sys.executable, "-m", "mmvidformer", "web", "--config", config]
    command += ["--checkpoint", weights, "--port", port, "--max-seconds", 3, "--max-mb", 0.5]
    command += ["--max-stored-mb", 30]
    process = run(*command, TMPDIR=folder / "tmp", **caches(folder))
    for _ in range(6000):
        try:
            urlopen(f"http://127.0.0.1:{port}", timeout=10).close()
            break
        except OSError:
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.1)
    else:
        pytest.fail("the page did not open in ten minutes")
    yield port, folder, str(config), str(weights)
    assert list((folder / "tmp").glob("mmvidformer_web_*"))
    process.send_signal(signal.SIGTERM)
    try:
        printed, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    refused = printed.count("gradio.exceptions.InvalidPathError: ")  # Gradio prints them
    assert printed.count("Traceback") == refused, printed
    assert not list((folder / "tmp").glob("mmvidformer_web_*"))


@pytest.fixture(scope="module")
def too_much(served) -> Iterator[http.client.HTTPConnection]:
    """An upload beyond the quota, begun early: the page waits five seconds for more of it."""
    connection = http.client.HTTPConnection("127.0.0.1", served[0], timeout=600)
    connection.putrequest("POST", "/gradio_api/upload")
    connection.putheader("Content-Type", "multipart/form-data; boundary=x")
    connection.putheader("Content-Length", "31000000")
    connection.endheaders()
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def client(served, too_much):
    from gradio_client import Client

    url, folder = f"http://127.0.0.1:{served[0]}", str(served[1] / "downloads")
    return Client(url, verbose=False, download_files=folder)


def submit(client, path: object) -> list:
    from gradio_client import handle_file

    given = handle_file(path) if isinstance(path, Path) else path
    job = client.submit(OWN, given, api_name="/predict")
    job.result(timeout=600)
    return job.outputs()


def test_models_that_need_no_download_can_be_chosen(client) -> None:
    (choices,) = (
        part["props"]["choices"]
        for part in client.config["components"]
        if part["type"] == "dropdown"
    )
    assert choices == [
        ["tiny (3 classes: red, green, blue)", OWN],
        ["camera_motion (Apache-2.0)", "camera_motion"],
        ["timesformer_b_k400 (CC-BY-NC-4.0)", "timesformer_b_k400"],
    ]


def test_a_video_gets_classes_timeline_and_rollout(client, served, tiny_videos) -> None:
    video = tiny_videos.root / "val_0.mp4"
    _, first, second, last = submit(client, video)
    (expected,) = Recognizer(*served[2:], clips=1).timeline(video)
    _, name, probability = expected.top(1)[0]
    assert first[0]["label"] == name
    assert first[0]["confidences"][0]["confidence"] == pytest.approx(probability, abs=1e-3)
    assert first[1]["plot"].startswith("data:image/")
    assert first[2] is None and not first[3]
    assert f"{name} {probability:.0%}" in first[4]
    assert first[5]["headers"] == ["video", "start", "end", "shot", "label", "score"]
    ((source, start, end, _, label, _),) = first[5]["data"]
    assert [source, start, end, label] == ["val_0.mp4", "0.0", "2.0", name]
    assert [Path(file).name for file in second[6]] == ["segments.csv", "answers.mp4"]
    rollout = last[2]["video"] if isinstance(last[2], dict) else last[2]
    reader = Video.open(rollout)
    assert len(reader) == 4 and reader.get_avg_fps() == 4
    assert reader.get_batch([0])[0].shape[1] > 1000  # frame, heat map and classes


def test_the_example_of_the_docs(served, tiny_videos, tmp_path, monkeypatch, capsys) -> None:
    (block,) = (b for b in read_blocks(ROOT / "docs" / "web.md", ROOT) if b.language == "python")
    code = block.text.replace(":7860", f":{served[0]}").replace("camera_motion", OWN)
    shutil.copy(tiny_videos.root / "val_0.mp4", tmp_path / "video.mp4")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    headline, row = capsys.readouterr().out.splitlines()
    (expected,) = Recognizer(*served[2:], clips=1).timeline("video.mp4")
    _, name, probability = expected.top(1)[0]
    assert f"{name} {probability:.0%}" in headline
    assert row.startswith("video.mp4 0.0 2.0 ") and f" {name} " in row


def test_what_is_wrong_stands_in_the_page(client, served, tiny_videos, tmp_path) -> None:
    (without,) = submit(client, None)
    assert without[3] == "Choose a video, or record one."
    content = (tiny_videos.root / "val_0.mp4").read_bytes()
    (tmp_path / "damaged.mp4").write_bytes(content[:700])
    write(tmp_path / "long.mp4", frames=40)
    write(tmp_path / "fast.mp4", frames=190, fps=1000)
    write_sound(tmp_path / "sound.mp4")
    for name, message in (
        ("damaged.mp4", "damaged.mp4: "),
        ("long.mp4", "a video must have at most 3 s, got 4.0 s"),
        ("fast.mp4", "a video of 64 x 32 pixels must have at most 180 frames, got 190"),
        ("sound.mp4", "sound.mp4: it has no video stream"),
    ):
        *_, last = submit(client, tmp_path / name)
        assert last[3].startswith(f"**Not answered:** {message}")
        assert not any(last[:3])
    (tmp_path / "large.mp4").write_bytes(bytes(600_000))
    with pytest.raises(Exception, match="(?i)size|413"):
        submit(client, tmp_path / "large.mp4")


def write_sound(path: Path) -> None:
    """Write a file of one second of silence."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream("aac", 16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        output.mux(stream.encode(frame))
        output.mux(stream.encode())


def test_frames_are_limited_and_no_other_file_is_read(client, served, tmp_path) -> None:
    other, grows = tmp_path / "other.ts", tmp_path / "grows.ts"
    encode(other, "libx264", range(1))
    encode(grows, "libx264", range(2), size=(4096, 2320), preset="ultrafast")
    huge = grows.read_bytes()
    for name, content, message in (
        ("huge.ts", huge, "frames must have at most 9437184 pixels"),
        ("grows.ts", other.read_bytes() + huge, "grows.ts: "),
        (
            "list.m3u8",
            f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1,\n{other}\n",
            "its format is none of",
        ),
        ("list.mp4", f"ffconcat version 1.0\nfile {other}\n", "its format is none of"),
    ):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        *_, last = submit(client, path)
        assert last[3].startswith("**Not answered:** ") and message in last[3]
        assert "\n" not in last[3] and str(served[1]) not in last[3]


def test_neither_paths_nor_addresses_of_the_browser_are_opened(served, tiny_videos, web) -> None:
    """As a browser sends them; a client of Gradio would upload the file."""
    address = web.add("/video.mp4", b"x" * 100)
    page = f"http://127.0.0.1:{served[0]}/gradio_api/call/predict"
    for path in (address, str(tiny_videos.root / "val_0.mp4")):
        data = {"data": [OWN, {"path": path, "meta": {"_type": "gradio.FileData"}}]}
        request = Request(page, json.dumps(data).encode(), {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=600) as answer:
                event = json.load(answer)["event_id"]
            with urlopen(f"{page}/{event}", timeout=600) as answer:
                text = answer.read().decode()
        except HTTPError as error:
            text = f"event: error {error.read()}"
        assert text.startswith("event: error")
    assert not web.fetched


def test_uploads_have_a_quota(too_much) -> None:
    """30 MB; the length of a request counts before it is read, whatever number of files it has."""
    answer = too_much.getresponse()
    assert answer.status == 503 and answer.getheader("Retry-After") == "600"
    full = "it stores 30 MB, and is full. Try again in 10 min"
    assert json.load(answer) == {"error": full}
    too_much.close()
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    too_much.request("POST", "/gradio_api/upload", iter([b"--x\r\n"]), headers)  # in chunks
    assert too_much.getresponse().status == 411


def test_only_this_machine_is_served(served) -> None:
    with socket.socket() as other:
        # An address of this machine that reaches servers at 0.0.0.0, but not at 127.0.0.1.
        assert other.connect_ex(("127.0.0.2", served[0])) != 0
