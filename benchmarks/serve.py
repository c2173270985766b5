"""A server beside a loop over a ``Recognizer`` on the same cores: python -m benchmarks.serve.

Starts ``mmvidformer serve``, and sends it one video again and again. Prints requests a second, and
the median and the 99th percentile of the seconds that a client waits, for 1, 8 and 64 clients;
then what ten times as many clients get as there are places: how often each status, how many wrong
rows, how many answers were lost. With ``--soak`` hostile uploads are among good ones. The memory is
that of all processes of the server, in MiB.
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import numpy as np

from mmvidformer.apis import Recognizer
from mmvidformer.config.shipped import PACKAGE
from mmvidformer.engine.tables import print_table

OPENER = build_opener(ProxyHandler({}))  # no proxy stands before this machine
VIDEO = PACKAGE / "weights" / "camera_motion.mp4"
HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda video: video[: len(video) // 2],
    "byte": lambda video: video[:1],
    "html": lambda video: b"<html>not found</html>",
    "noise": lambda video: random.randbytes(20_000),
    "bits": lambda video: bytes(b ^ (random.random() < 0.001) for b in video),
}


class Reply(NamedTuple):
    """What a client got: status (0: none), its text, and the seconds that it waited."""

    status: int
    text: str
    seconds: float


def ask(url: str, video: bytes) -> Reply:
    """Send a video."""
    began = time.perf_counter()
    try:
        with OPENER.open(url, video, timeout=600) as answer:
            status, text = answer.status, answer.read().decode()
    except HTTPError as error:
        status, text = error.code, error.read().decode()
    except OSError as error:
        status, text = 0, str(error)
    return Reply(status, text, time.perf_counter() - began)


def ask_at_once(url: str, video: bytes, clients: int, requests: int) -> tuple[list[Reply], float]:
    """Send a video from many clients, each as soon as it has its last answer; and the seconds."""
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        replies = list(threads.map(lambda _: ask(url, video), range(requests)))
    return replies, time.perf_counter() - began


def memory_of(process: int) -> float:
    """MiB of a process and those that it started, each page counted once (Linux)."""
    total = 0.0
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        total += sum(memory_of(int(child)) for child in children.read_text().split())
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            total += int(line.split()[1]) / 1024
    return total


def soak(url: str, video: bytes, seconds: float, expected: str) -> Counter[str]:
    """Send good and hostile videos from eight clients; count what came back."""
    counts: Counter[str] = Counter()
    lock, end = threading.Lock(), time.monotonic() + seconds

    def send() -> None:
        while time.monotonic() < end:
            name = random.choice([*HOSTILE, "good", "good"])
            content = video if name == "good" else HOSTILE[name](video)
            reply = ask(url, content)
            is_wrong = name == "good" and reply.status == 200 and reply.text != expected
            with lock:
                counts[f"{name}: {reply.status}{', wrong' * is_wrong}"] += 1

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="camera_motion")
    parser.add_argument("--video", type=Path, default=VIDEO)
    parser.add_argument("--requests", type=int, default=64, help="for each number of clients")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--queue", type=int, default=62)
    parser.add_argument("--soak", type=float, default=0, metavar="SECONDS")
    args = parser.parse_args(argv)
    recognizer = Recognizer(args.model)
    recognizer(args.video)
    began = time.perf_counter()
    for _ in range(args.requests):
        recognizer(args.video)
    loop = args.requests / (time.perf_counter() - began)
    command = [sys.executable, "-m", "mmvidformer", "serve", args.model, "--port", "0"]
    for name in ("workers", "batch", "queue"):
        command += [f"--{name}", str(getattr(args, name))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        lines = iter(server.stderr or ())
        url = next(line.split()[0] for line in lines if line.endswith(" answers\n"))
        threading.Thread(target=lambda: [*lines], daemon=True).start()
        try:
            measure(server.pid, url, recognizer, loop, args)
        finally:
            server.terminate()


def measure(
    server: int, url: str, recognizer: Recognizer, loop: float, args: argparse.Namespace
) -> None:
    """Print what a server does, beside the requests a second of a loop."""
    video = args.video.read_bytes()
    url = f"{url}/predict"
    expected = ask(url, video).text
    row = json.loads(expected)
    assert row["label"] == recognizer(args.video).label
    rows = [("loop", f"{loop:.2f}", f"{1 / loop:.3f}", "", "", "")]
    for clients in (1, 8, 64):
        replies, seconds = ask_at_once(url, video, clients, args.requests)
        good = [reply for reply in replies if reply.status == 200]
        assert all(reply.text == expected for reply in good)
        middle, most = np.percentile([reply.seconds for reply in good], [50, 99])
        rate = f"{len(good) / seconds:.2f}"
        memory = f"{memory_of(server):.0f}"
        rows.append((str(clients), rate, f"{middle:.3f}", f"{most:.3f}", str(len(good)), memory))
    print_table(("clients", "requests/s", "p50 s", "p99 s", "answered", "MiB"), rows)
    clients = 10 * (args.workers + args.queue)
    replies, seconds = ask_at_once(url, video, clients, clients)
    statuses = dict(Counter(reply.status for reply in replies))
    wrong = sum(reply.status == 200 and reply.text != expected for reply in replies)
    print(f"{clients} at once: {statuses} in {seconds:.1f} s, {wrong} wrong")
    print(f"memory: {memory_of(server):.0f} MiB")
    if args.soak:
        counts = soak(url, video, args.soak, expected)
        for what, count in sorted(counts.items()):
            print(f"{what}: {count}")
        print(f"memory: {memory_of(server):.0f} MiB")


if __name__ == "__main__":
    main()
