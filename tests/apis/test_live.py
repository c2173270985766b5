"""Live addresses, from a server on the loopback: queue, latency, reconnection."""

import socket
import time
import traceback
import wave
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from threading import Thread

import av
import pytest
import torch
from av.container import InputContainer

from benchmarks.live_server import LiveServer
from mmvidformer.apis import Capture, Recognizer
from mmvidformer.apis.windows import read_ahead
from mmvidformer.video import capture, connection


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "WAIT", 0.02)


def test_frames_of_an_address_come_by_the_clock() -> None:
    with LiveServer(200, pace=300) as server, Capture(server.address, queue=200) as source:
        assert (source.is_live, source.fps, source.total) == (True, 30, None)
        numbers, seconds, pictures = zip(*islice(source.frames(), 60), strict=True)
        assert source.note_delay(seconds[-1]) >= 0
    assert numbers == tuple(range(60))
    assert list(seconds) == sorted(seconds) and seconds[0] == 0
    for number, pixels in zip(numbers, pictures, strict=True):
        assert pixels.shape == (48, 64, 3) and abs(pixels.mean() - 5 * number % 250) < 3
    assert source.report().endswith("(most); frames dropped: 0, reconnections: 0")


def test_a_server_that_comes_back_is_connected_again() -> None:
    with LiveServer(60, pace=300) as server:
        source = Capture(server.address, queue=200)
        frames = source.frames()
        found = [next(frames) for _ in range(30)]
    with source, LiveServer(60, pace=300, port=server.port):
        found += [next(frames) for _ in range(60)]
        frames.close()
    numbers = [number for number, _, _ in found]
    (cut,) = {number for number in source.cuts if number <= numbers[-1]}
    assert cut in numbers and cut - 1 not in numbers  # what is missing leaves a gap
    first = numbers.index(cut)
    for number, _, pixels in found[first:]:  # the stream begins anew
        assert abs(pixels.mean() - 5 * (number - cut) % 250) < 3


def test_connections_that_ended_are_closed(monkeypatch, tmp_path: Path) -> None:
    """At once, not when Python collects garbage; also those in which there is no video."""
    opened, av_open = [], av.open

    def open_and_keep(*args: object, **options: object) -> InputContainer:
        opened.append(av_open(*args, **options))
        return opened[-1]

    with LiveServer(4, pace=1000) as server:
        monkeypatch.setattr(av, "open", open_and_keep)
        with Capture(server.address, queue=100) as source:
            frames = source.frames()
            while len(opened) < 4:
                next(frames)
            assert [is_closed(container) for container in opened[:3]] == [True] * 3
            frames.close()
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(800))
    sound = av_open(str(tmp_path / "sound.wav"))
    monkeypatch.setattr(av, "open", lambda *args, **options: sound)
    with pytest.raises(ConnectionError, match="no video stream"):
        Capture("http://127.0.0.1:1/sound.wav")
    assert is_closed(sound)


def is_closed(container: InputContainer) -> bool:
    """Whether a container lets nobody seek in it any more."""
    try:
        container.seek(0)
    except AssertionError:
        return True
    return False


def test_a_server_that_stays_away_is_an_error() -> None:
    with LiveServer(5, pace=300) as server:
        source = Capture(server.address, patience=0.1)
        frames = source.frames()
        next(frames)
    with source, pytest.raises(ConnectionError, match=r"live.ts went away after .* not come back"):
        list(frames)
    with pytest.raises(ConnectionError, match=r"cannot open .*live.ts: Connection refused"):
        Capture(server.address)


@pytest.mark.parametrize("user", ["user:secret@", "user:se/cret@", "user:a@cret@", "[cret@", ""])
def test_a_password_is_not_printed(user: str) -> None:
    """Nor by a traceback, which shows the errors that caused one."""
    address = f"http://{user}127.0.0.1:1/x.ts?password=secret"
    with pytest.raises(ConnectionError, match="cannot open http://127.0.0.1:1/x.ts: ") as error:
        Capture(address)
    assert "cret" not in "".join(traceback.format_exception(error.value))


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENCE", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ConnectionError, match=r"cannot open .*x.ts: no data for 0.2 s"),
    ):
        Capture(f"http://127.0.0.1:{server.getsockname()[1]}/x.ts")


@pytest.mark.parametrize("pace, wait", [(10, 0), (40, 1.8)], ids=["slow camera", "slow model"])
def test_what_is_slow_loses_no_camera(monkeypatch, pace: float, wait: float) -> None:
    """One frame is sooner than silence, about twenty are not, nor those that a model takes."""
    monkeypatch.setattr(connection, "SILENCE", 1.5)
    with LiveServer(400, pace=pace) as server, Capture(server.address, queue=2) as source:
        frames = source.frames()
        for number, _, pixels in islice(frames, 3 if wait else 40):
            assert abs(pixels.mean() - 5 * number % 250) < 3
            time.sleep(wait)
        frames.close()
    assert number >= 39 and source.cuts == []


def test_the_oldest_frames_are_dropped_and_counted() -> None:
    server = LiveServer(120, pace=600, connections=1)  # whose frames would have other numbers
    with server, Capture(server.address, queue=4) as source:
        frames, numbers = source.frames(), []
        while not numbers or numbers[-1] < 100:
            number, _, pixels = next(frames)
            assert abs(pixels.mean() - 5 * number % 250) < 3
            numbers.append(number)
            time.sleep(0.02)
        frames.close()
    assert numbers == sorted(numbers)
    missed = numbers[-1] + 1 - len(numbers)
    assert 0 < missed <= source.dropped


def test_a_file_of_a_server_is_read_to_its_end(gray_video: Callable) -> None:
    path = gray_video(20, 8)
    with av.open(str(path.with_name("slow.mkv")), "w") as file:  # states 8 frames per second
        stream = file.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.codec_context.time_base = 64, 48, Fraction(1, 8)
        for i in range(20):
            frame = av.VideoFrame(64, 48, "yuv420p")
            frame.pts, frame.time_base = 10 * i, Fraction(1, 8)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    handler = partial(SimpleHTTPRequestHandler, directory=path.parent)
    handler.log_message = lambda *args: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        with Capture(f"http://127.0.0.1:{server.server_address[1]}/{path.name}") as source:
            assert (source.is_live, source.fps, source.total) == (False, 8, 20)
            found = list(source.frames(interval=3))
        with Capture(source.name.replace(path.name, "slow.mkv")) as slow:
            # Each frame is shown for 10 of those that the rate tells.
            times = [seconds for _, seconds, _ in slow.frames()]
            assert slow.total > 150 and len(times) == 191 and times[-1] == 190 / 8
        server.shutdown()
    assert [number for number, _, _ in found] == list(range(0, 20, 3))
    assert [seconds for _, seconds, _ in found] == [number / 8 for number in range(0, 20, 3)]


def test_the_state_of_a_model_is_reset_when_an_address_comes_back(
    small: Callable, build: Callable, tmp_path: Path
) -> None:
    """After each connection the first prediction is that of the first frame alone."""
    cfg = small("horst_early_motion")
    torch.save({"state_dict": build(cfg).state_dict()}, tmp_path / "random.pth")
    recognizer = Recognizer(cfg, str(tmp_path / "random.pth"))
    pipeline = recognizer.frame_runner.pipeline
    pipeline.time_step, pipeline.frame_interval = None, 1
    with LiveServer(8, pace=300, size=(64, 64)) as server:
        with Capture(server.address, queue=10_000) as source:
            steps = recognizer.frame_by_frame(source)
            found = [next(steps) for _ in range(12)]
            steps.close()
    numbers = [one.number for one in found]
    assert numbers[8] == source.cuts[0] == numbers[7] + 2
    scores = [torch.from_numpy(one.predictions[0].scores["class"]) for one in found]
    torch.testing.assert_close(scores[8], scores[0], rtol=0, atol=1e-5)
    assert (scores[1] - scores[0]).abs().max() > 1e-4


def test_errors_come_in_their_places() -> None:
    def items():
        yield from range(3)
        raise OSError("broken")

    found = []
    with pytest.raises(OSError, match="broken"):
        found.extend(read_ahead(items(), count=3))
    assert found == [0, 1, 2]
    assert list(read_ahead(range(5), count=3)) == list(range(5))


def test_no_more_is_read_than_needed() -> None:
    made = []
    ahead = read_ahead((made.append(i) or i for i in range(100)), 2)
    assert next(ahead) == 0
    ahead.close()
    assert len(made) <= 4
