"""Kill a training run again and again. It must resume each time, and end as if undisturbed.

    python -m stress.kill_and_resume --kills 50 --out kills.csv

A tiny model learns from generated videos and saves every few steps. SIGKILL comes at random
moments: during the start, during training, and at each stage of writing a checkpoint or the file
``last_checkpoint``. A run that ends is compared bit for bit with an undisturbed one, then the next
run begins, until there were enough kills. Runs are forked from a process that has imported all
modules, since imports take longer than the rest; this needs Linux or macOS. Exits with status 1 if
a run does not resume, loses more than one save interval, or ends with other weights.
"""

import argparse
import csv
import json
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from mmengine.hooks import Hook
from tqdm import tqdm

from mmvidformer.__main__ import main as run_command
from mmvidformer.engine.checkpointing import hook
from mmvidformer.registry import HOOKS
from stress.tiny_run import BATCHES, fork, prepare, write_config

# Shared with the runs: the step that a run began with, its finished steps, whether it is writing.
STATE = struct.Struct("iii")
SHARED = mmap.mmap(-1, STATE.size)
WRITING = ["half written", "written", "before rename", "after rename"]


def report(**changes: int) -> None:
    """Change the shared state."""
    state = dict(zip(("began", "done", "writing"), STATE.unpack(SHARED[:]), strict=True))
    SHARED[:] = STATE.pack(*{**state, **changes}.values())


@HOOKS.register_module()
class ReportStep(Hook):
    """Reports the progress of a run to its parent process."""

    priority = "VERY_HIGH"

    def before_train(self, runner) -> None:
        """Report the first step."""
        report(began=runner.iter, done=runner.iter)

    def after_train_iter(self, runner, **kwargs) -> None:
        """Report a finished step."""
        report(done=runner.iter + 1)


def arm(stage: str, number: int) -> None:
    """Make this process kill itself at a stage of the n-th file that it writes."""
    calls = {"fsync": os.fsync, "replace": os.replace}
    count = {"fsync": 0, "replace": 0}

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fsync(handle: int) -> None:
        # Called twice per file: for the file, and for its folder once it is renamed.
        count["fsync"] += 1
        if count["fsync"] == 2 * number - 1 and stage in ("half written", "written"):
            if stage == "half written":
                os.ftruncate(handle, os.fstat(handle).st_size // 2)
            die()
        calls["fsync"](handle)

    def replace(source: str, target: str) -> None:
        count["replace"] += 1
        if count["replace"] == number and stage == "before rename":
            die()
        calls["replace"](source, target)
        if count["replace"] == number and stage == "after rename":
            die()

    os.fsync, os.replace = fsync, replace


def watch_writes() -> None:
    """Report when a file is being written."""
    write = hook.write_atomically

    @contextmanager
    def watched(path: str) -> Iterator[Path]:
        report(writing=1)
        with write(path) as part:
            yield part
        report(writing=0)

    hook.write_atomically = watched


def live(
    config: Path, work_dir: Path, plan: tuple[str, float, int], limit: float
) -> dict[str, object]:
    """Start or resume a run, kill it as planned, and return what happened."""
    when, wait, number = plan
    report(began=-1, done=-1, writing=0)

    def action() -> None:
        watch_writes()
        if when not in ("starting", "training", "never"):
            arm(when, number)
        options = ["--work-dir", str(work_dir), "--resume", "--seed", "0"]
        sys.exit(run_command(["train", str(config), *options]))

    start = time.monotonic()
    child = fork(action, work_dir.with_suffix(".log"))
    at = start + wait if when == "starting" else None
    gone = 0
    while not gone:
        gone, status = os.waitpid(child, os.WNOHANG)
        now = time.monotonic()
        if when == "training" and at is None and STATE.unpack(SHARED[:])[0] >= 0:
            at = now + wait
        if not gone and (now - start > limit or at is not None and now >= at):
            os.kill(child, signal.SIGKILL)
            gone, status = os.waitpid(child, 0)
        time.sleep(0.002)
    began, done, writing = STATE.unpack(SHARED[:])
    killed = os.WIFSIGNALED(status)
    return dict(
        planned=when,
        killed=killed,
        writing=bool(writing),
        failed=not killed and os.WEXITSTATUS(status) != 0,
        began=began,
        done=done,
        seconds=round(time.monotonic() - start, 2),
    )


def weights(work_dir: Path) -> dict[str, torch.Tensor]:
    """Weights of the latest checkpoint."""
    latest = (work_dir / "last_checkpoint").read_text()
    return torch.load(latest, weights_only=True)["state_dict"]


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50, help="number of kills")
    parser.add_argument("--interval", type=int, default=3, help="steps between two saves")
    parser.add_argument("--epochs", type=int, default=6, help=f"epochs of {BATCHES} steps per run")
    parser.add_argument("--minutes", type=float, default=30, help="time limit")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--out", type=Path, help=".csv file for a row per start of a run")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Kill and resume, and return the exit status."""
    args = parse_args(argv)
    prepare()
    folder = Path(tempfile.mkdtemp(prefix="kill_and_resume_"))
    faults = ["the test itself failed"]
    try:
        rows, faults = _kill(args, folder)
    finally:
        if faults:
            print(f"runs and logs are in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)
    if args.out is not None:
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    killed = [row for row in rows if row["killed"]]
    figures = dict(
        kills=len(killed),
        kills_while_writing=sum(bool(row["writing"]) for row in killed),
        kills_before_the_first_step=sum(row["began"] < 0 for row in killed),
        resumed=sum(row["began"] > 0 for row in rows),
        runs_ended=sum(not row["killed"] for row in rows),
        most_steps_lost=max(row["lost"] for row in rows),
        save_interval=args.interval,
        steps_of_a_run=args.epochs * BATCHES,
        minutes=round(sum(row["seconds"] for row in rows) / 60, 1),
        faults=faults,
    )
    print(json.dumps(figures, indent=2))
    return int(bool(faults))


def _kill(args: argparse.Namespace, folder: Path) -> tuple[list[dict], list[str]]:
    config = write_config(folder, epochs=args.epochs, interval=args.interval)
    with config.open("a") as file:
        file.write('custom_hooks = [dict(type="mmvidformer.ReportStep")]\n')
    deadline = time.monotonic() + 60 * args.minutes
    steps, limit = args.epochs * BATCHES, 60 * args.minutes

    undisturbed = live(config, folder / "undisturbed", ("never", 0, 0), limit)
    if undisturbed["failed"] or undisturbed["done"] != steps:
        raise RuntimeError(f"the undisturbed run failed: see {folder / 'undisturbed.log'}")
    expected = weights(folder / "undisturbed")
    chance = random.Random(args.seed)
    stages = ["training"] * 4 + ["starting"]
    stages += WRITING
    rows: list[dict] = []
    faults: list[str] = []
    bar = tqdm(total=args.kills, unit="kill", disable=None)
    run, reached, kills = 0, 0, 0
    while not faults:
        when = chance.choice(stages) if kills < args.kills else "never"
        plan = (when, chance.uniform(0, 0.6 * undisturbed["seconds"]), chance.randint(1, 8))
        work_dir = folder / f"run_{run}"
        row = live(config, work_dir, plan, limit)
        lost = max(reached - row["began"], 0) if row["began"] >= 0 else 0
        rows.append({"run": run, **row, "lost": lost})
        if lost > args.interval:
            faults.append(f"run {run} began at step {row['began']} after step {reached}")
        if row["failed"]:
            faults.append(f"run {run} did not resume: see {work_dir.with_suffix('.log')}")
        if row["killed"] and when in WRITING and not row["writing"]:
            faults.append(f"run {run} was to be killed while it writes, and did not tell")
        reached = max(reached if row["began"] < 0 else 0, row["done"])
        if row["killed"]:
            kills += 1
            bar.update()
        elif not row["failed"]:
            if row["done"] != steps and row["began"] != steps:
                faults.append(f"run {run} ended at step {row['done']} of {steps}")
            state = weights(work_dir)
            if any(not torch.equal(state[name], expected[name]) for name in expected):
                faults.append(f"run {run} ended with other weights than the undisturbed one")
            run, reached = run + 1, 0
            if kills >= args.kills:
                break
        if time.monotonic() > deadline:
            faults.append(f"only {kills} kills in {args.minutes} minutes")
    bar.close()
    return rows, faults


if __name__ == "__main__":
    sys.exit(main())
