"""Answers on systems that have no fork, or another encoding."""

import csv
import json
import os
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
from mmengine.config import Config

from mmvidformer.config.shipped import PACKAGE

VIDEO = PACKAGE / "weights" / "camera_motion.mp4"
# What Windows has not. Processes start by ``spawn``, and run this file again.
AS_WINDOWS = """
import multiprocessing, os, random, signal, subprocess, sys
for name in ("fork", "forkpty", "setpgrp", "getsid", "killpg", "geteuid"):
    delattr(os, name)
for name in ("SIGALRM", "SIGUSR1", "SIGHUP", "SIGPIPE", "pthread_sigmask", "setitimer", "alarm"):
    delattr(signal, name)
for name in ("fcntl", "resource", "pwd", "grp", "pty", "termios"):
    sys.modules[name] = None
contexts = multiprocessing.context._concrete_contexts
for name in ("fork", "forkserver"):
    del contexts[name]
multiprocessing.context.DefaultContext.get_all_start_methods = lambda self: [*contexts]
multiprocessing.get_all_start_methods = lambda: [*contexts]
multiprocessing.set_start_method("spawn", force=True)
"""
# MMEngine asks for the system by name, and leaves the start of processes there as it is.
TRAINS = """
import platform
named = platform.system
of_mmengine = lambda: sys._getframe(2).f_globals["__name__"].startswith("mmengine.")
platform.system = lambda: "Windows" if of_mmengine() else named()
"""
COMMANDS = """
if __name__ == "__main__":
    from mmvidformer.__main__ import main

    for command in {commands!r}:
        print(command, main(command))
"""
# huggingface_hub, which Gradio imports, leaves it out by the name of the system.
HAS_TERMIOS = "del sys.modules['termios']"
# Asks its own service, and Python for the same.
SERVICE = """
if __name__ == "__main__":
    import json, socket, threading, time
    from urllib.request import Request, urlopen
    from mmvidformer.__main__ import main
    from mmvidformer.apis import Recognizer

    model = Recognizer("camera_motion"{clips})
    rows = [answer.row(5) for answer in model.answers({video!r}, window=2)]
    print(json.dumps([row["label"] for row in rows]))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    service = f"http://127.0.0.1:{{port}}"

    def ask():
        while True:
            try:
                urlopen(service + "{ready}").close()
                break
            except OSError:
                time.sleep(0.1)
        print(json.dumps({asks}()), flush=True)
        signal.raise_signal(signal.SIGINT)

    def ask_http():
        with open({video!r}, "rb") as file:
            request = Request(f"{{service}}/predict?window=2", file.read())
        with urlopen(request) as answer:
            return [json.loads(line)["label"] for line in answer]

    def ask_page():
        from gradio_client import Client, handle_file

        page = Client(service, verbose=False)
        job = page.submit("camera_motion", handle_file({video!r}), api_name="/predict")
        job.result()
        table = job.outputs()[-1][5]
        return [row[table["headers"].index("label")] for row in table["data"]]

    threading.Thread(target=ask, daemon=True).start()
    sys.exit(main([{command!r}, "camera_motion", "--port", str(port)]))
"""


def run(commands: list[list[str]], folder: Path, before: str = "", **variables: str) -> str:
    """Run commands one after another in a new process."""
    script = folder / "script.py"
    script.write_text(before + COMMANDS.format(commands=commands), encoding="utf-8")
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=folder,
        env={**os.environ, **path, **variables},
        capture_output=True,
    )
    printed = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode == 0, printed[-3000:]
    return printed


def test_neither_forks_nor_most_letters(tmp_path: Path) -> None:
    """A video that is none is seen by a process of its own, too.

    Files are UTF-8 all the same, and what the terminal cannot show ends no command.
    """
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    (tmp_path / "videos").mkdir()
    shutil.copy(VIDEO, tmp_path / "videos" / "good.mp4")
    (tmp_path / "videos" / "bad.mp4").write_bytes(b"no video")
    names = "\n".join(f"→ {number}" for number in range(9))
    (tmp_path / "names.txt").write_text(names, encoding="utf-8")
    commands = [
        ["demo", "camera_motion", str(VIDEO), "--classes", "names.txt", "--csv", "rows.csv"],
        ["label", "camera_motion", "videos", "--workers", "1", "--out", "rows"],
        ["data", "check", "videos", "--workers", "1"],
    ]
    plain = dict(LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    plain["PYTHONIOENCODING"] = "cp1252"  # of Windows: a letter that it lacks is an error
    printed = run(commands, tmp_path, AS_WINDOWS, **plain)
    assert "'rows.csv'] 0" in printed
    rows = [*csv.DictReader((tmp_path / "rows.csv").open(encoding="utf-8"))]
    assert rows and all(row["label"].startswith("→ ") for row in rows)
    assert {row["video"] for row in parquet.read_table(tmp_path / "rows").to_pylist()} == {
        "good.mp4"
    }
    assert "bad.mp4" in (tmp_path / "rows" / "_failed.csv").read_text()
    assert "'--out', 'rows'] 1" in printed and "'--workers', '1'] 1" in printed


@pytest.mark.slow
def test_training_where_nothing_can_be_forked(tiny_videos, tmp_path: Path) -> None:
    """Workers start by spawn, without limit of a sample's time, and no signal is asked for."""
    cfg = Config.fromfile(Path(__file__).parent / "cli" / "tiny_vivit.py")
    loaders = cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader
    worker_init = dict(type="mmvidformer.data.workers.init_worker")
    lists = tiny_videos.train, tiny_videos.val, tiny_videos.val
    for loader, file in zip(loaders, lists, strict=True):
        loader.update(num_workers=1, worker_init_fn=worker_init)
        loader.dataset.update(ann_file=str(file), data_prefix=dict(video=str(tiny_videos.root)))
    cfg.train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=1)
    cfg.env_cfg.mp_cfg.mp_start_method = "forkserver"  # as in the shipped configs
    cfg.bad_videos = dict(on_bad_video="resample")
    cfg.dump(tmp_path / "config.py")
    printed = run([["train", "config.py", "--work-dir", "w"]], tmp_path, AS_WINDOWS + TRAINS)
    assert "'w'] 0" in printed and (tmp_path / "w" / "epoch_1.pth").exists()


SERVICES = {
    "serve": ("fastapi", 130, dict(clips="", ready="/health", asks="ask_http")),
    "web": ("gradio", 0, dict(clips=", clips=1", ready="/", asks="ask_page")),
}


@pytest.mark.parametrize("command", SERVICES)
def test_a_service_where_nothing_can_be_forked(command: str, tmp_path: Path) -> None:
    """What answers is a process of its own, and Python has the same answer."""
    package, status, asking = SERVICES[command]
    pytest.importorskip(package)
    script = tmp_path / "script.py"
    service = SERVICE.format(video=str(VIDEO), command=command, **asking)
    script.write_text(AS_WINDOWS + HAS_TERMIOS + service, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == status and "Traceback" not in done.stderr, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("[")]
    own, served = map(json.loads, rows)
    if command == "web":  # its rows are segments, of one window or more
        own, served = ([label for label, _ in groupby(labels)] for labels in (own, served))
    assert own == served and len(own) > 3
