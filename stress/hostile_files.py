"""Give files that would run code, or reach other data, to every entry point that reads weights.

    python -m stress.hostile_files --out hostile.csv

Each file holds a payload that writes a marker file, or takes weights from another file or an
address (``checkpoints.partial``). Prints a table: entry point, file, what the user saw, whether the
payload ran or the other place was reached. The exit status is 1 if one was, or if a hostile pickle
was accepted. Needs a system with fork (Linux, macOS).
"""

import argparse
import csv
import itertools
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.runner import load_checkpoint
from tqdm import tqdm

from mmvidformer.__main__ import main as run_command
from mmvidformer.checkpoints import init_from_image
from mmvidformer.checkpoints.download import cached_path
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.tables import print_table
from mmvidformer.models import ViViT
from mmvidformer.registry import MODELS
from stress.hostile_content import (
    ELSEWHERE,
    code_files,
    config_text,
    partial_files,
)
from stress.tiny_run import fork, prepare, write_config

COLUMNS = ("refused", "error", "accepted", "hangs")  # what users saw


class Server(HTTPServer):
    """A server on this machine that writes the marker file at each request."""

    def __init__(self, mark: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.mark = mark
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(BaseHTTPRequestHandler):
    """Notes that there was a request."""

    def do_GET(self) -> None:
        """Refuse."""
        self.server.mark.touch()
        self.send_error(404)

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        """Print nothing."""


def watch(path: Path, mark: Path) -> None:
    """Write the marker file when this process opens a path."""

    def note(event: str, arguments: tuple) -> None:
        if event == "open" and str(arguments[0]) == str(path):
            mark.touch()

    sys.addaudithook(note)


def entries(config: Path, folder: Path) -> dict[str, Callable[[Path], object]]:
    """What users do with a checkpoint, by name."""
    out = folder / "out"
    cfg = Config.fromfile(config)
    train = ["train", str(config), "--work-dir", str(out)]
    video = str(folder / "videos" / "0.mp4")

    def resume_newest(path: Path) -> int:
        out.mkdir(exist_ok=True)
        shutil.copy(path, out / "epoch_1.pth")
        return run_command([*train, "--resume"])

    def from_address(path: Path) -> int:
        # A file that is in the cache is not downloaded again.
        os.environ["TORCH_HOME"] = str(folder)
        address = f"https://localhost/{path.name}"
        there = cached_path(address)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, there)
        return run_command([*train, "--cfg-options", f"load_from={address}"])

    def init_recognizer(path: Path) -> None:
        from mmaction.apis import init_recognizer as init

        init(cfg, str(path), device="cpu")

    def backbone() -> torch.nn.Module:
        return ViViT(**{k: v for k, v in cfg.model.backbone.items() if k != "type"})

    return {
        "mmvidformer convert FILE": lambda p: run_command(["convert", str(p), str(out / "a.pth")]),
        "mmvidformer train --resume FILE": lambda p: run_command([*train, "--resume", str(p)]),
        "mmvidformer train --resume": resume_newest,
        "load_from=FILE": lambda p: run_command([*train, "--cfg-options", f"load_from={p}"]),
        "load_from=ADDRESS": from_address,
        "mmvidformer test CONFIG FILE": lambda p: run_command(
            ["test", str(config), str(p), "--work-dir", str(out)]
        ),
        "mmvidformer plot rollout": lambda p: run_command(
            ["plot", "rollout", str(config), str(p), video, "--out-dir", str(out)]
        ),
        "backbone init_from=FILE": lambda p: init_from_image(backbone(), p),
        "BNInception init_from=FILE": lambda p: MODELS.build(
            dict(type="mmvidformer.BNInception", init_from=str(p))
        ).init_weights(),
        "init_cfg Pretrained (load_checkpoint)": lambda p: load_checkpoint(backbone(), str(p)),
        "MMAction2's init_recognizer": init_recognizer,
    }


def try_file(
    action: Callable[[Path], object], path: Path, mark: Path, log: Path
) -> tuple[str, str]:
    """Read a file in a child process; return what the user saw, and if something was reached."""
    mark.unlink(missing_ok=True)
    log.unlink(missing_ok=True)

    def read() -> None:
        watch(mark.parent / ELSEWHERE, mark)
        raise SystemExit(run_tool(lambda: _status(action(path))))

    child = fork(read, log)
    deadline, status = time.monotonic() + 120, None
    while status is None and time.monotonic() < deadline:
        gone, ended = os.waitpid(child, os.WNOHANG)
        status = ended if gone else None
        time.sleep(0.005)
    if status is None:
        os.kill(child, 9)
        os.waitpid(child, 0)
        return "hangs", "no"
    reached = "YES" if mark.exists() else "no"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    # With --resume alone the file has another name.
    named = [line for line in lines if path.name in line or "is refused" in line]
    last = named[-1] if named else ""
    if os.waitstatus_to_exitcode(status) == 0:
        return "accepted", reached
    refused = "refused" if "is refused" in last else "error"
    shown = last or (lines or [""])[-1]
    return f"{refused}: {shown.strip()[:160]}", reached


def summarize(rows: Sequence[dict[str, str]]) -> list[list[str]]:
    """Count what users saw, by group of files."""
    groups: dict[str, Counter[str]] = {}
    for row in rows:
        group = "weights from elsewhere" if row["file"].startswith("base: ") else "code"
        group = "a program as its config" if row["file"].endswith("as its config") else group
        groups.setdefault(group, Counter())[row["saw"].partition(":")[0]] += 1
    return [
        [group, *(str(answers[answer]) for answer in COLUMNS)] for group, answers in groups.items()
    ]


def _status(result: object) -> int:
    """Exit status of a tool; other functions return something else."""
    return result if isinstance(result, int) else 0


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run only entry points whose name contains this")
    parser.add_argument("--out", type=Path, help="write the table to this .csv file")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Try all files at all entry points and return the exit status."""
    args = parse_args(argv)
    prepare()
    rows, bad = [], 0
    with tempfile.TemporaryDirectory(prefix="hostile_files_") as name:
        folder = Path(name)
        mark, log = folder / "was_run", folder / "log.txt"
        config = write_config(folder, epochs=1, interval=100)
        init_default_scope("mmaction")
        files = code_files(folder, mark)
        program = folder / "program.pth"
        config_text(program, mark, config)
        files["checkpoint with a program as its config"] = program
        server = Server(mark)
        files |= partial_files(folder, config, f"http://127.0.0.1:{server.server_port}/w.pth")
        # MMEngine, which knows no base, reads the rest of the file.
        harmless = {program, files["base: no mapping"]}
        doors = {name: do for name, do in entries(config, folder).items() if args.only in name}
        tries = list(itertools.product(doors.items(), files.items()))
        for (entry, action), (description, path) in tqdm(tries, unit="file", disable=None):
            shutil.rmtree(folder / "out", ignore_errors=True)
            saw, reached = try_file(action, path, mark, log)
            saw = saw.replace(f"{folder}/", "").replace(f":{server.server_port}/", "/")
            bad += reached == "YES" or saw == "hangs"
            bad += saw == "accepted" and path not in harmless
            rows.append(dict(entry=entry, file=description, saw=saw, reached=reached))
            tqdm.write(f"{entry:40} {description:48} {reached:4} {saw[:100]}")
    print_table(["files", *COLUMNS], summarize(rows))
    reached = sum(row["reached"] == "YES" for row in rows)
    print(f"{len(rows)} tries; in {reached} a payload ran, or another file or address was reached")
    if args.out is not None:
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
