"""Let parts of a training run hang or die, and see how it ends: python -m stress.lost_parts.

Each case is provoked many times in runs of tools/train.py with two processes. For each run the
table has the exit status, the seconds from the fault to the end of the command, its messages, and
the number of processes that are left (0). Linux only; the full disk needs root, which mounts one.
"""

import csv
import ctypes
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from mmcv.transforms import BaseTransform
from mmengine.hooks import Hook

from mmvidformer.registry import HOOKS, TRANSFORMS
from stress.tiny_run import write_config

ROOT = Path(__file__).parents[1]
LOADER_TIMEOUT, GROUP_TIMEOUT = 5, 10  # seconds, as the config sets them
STEP, INTERVAL = 3, 2  # of the fault, and between two checkpoints
# Case: what happens. Those of workers happen in a transform, those of processes in a hook.
WORKERS = {
    "worker_waits": lambda: time.sleep(600),
    "worker_killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    # It sleeps in native code that keeps the interpreter's lock.
    "decoder_loops": lambda: ctypes.PyDLL(None).sleep(600),
}
PROCESSES = {
    "process_killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "process_stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "ctrl_c_twice": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "sigterm_twice": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "disk_full": lambda: None,
}
CASES = [*WORKERS, *PROCESSES]
# Signals that the command gets twice, after a process was stopped.
TWICE = {"ctrl_c_twice": signal.SIGINT, "sigterm_twice": signal.SIGTERM}


def begin(folder: str) -> None:
    """Note when the fault happens."""
    Path(folder, "fault").touch()


@TRANSFORMS.register_module()
class TroubleInWorker(BaseTransform):
    """A fault of a case in a worker of the second process, at its n-th sample."""

    def __init__(self, case: str, folder: str) -> None:
        self.case, self.folder, self.seen = case, folder, 0

    def transform(self, results: dict) -> dict:
        """Let it happen."""
        self.seen += 1
        if self.case and os.environ.get("RANK") == "1" and self.seen == 2 * STEP:
            begin(self.folder)
            WORKERS[self.case]()
        return results


@HOOKS.register_module()
class TroubleInProcess(Hook):
    """A fault of a case in the second process."""

    def __init__(self, case: str, folder: str) -> None:
        self.case, self.folder = case, folder

    def before_train_iter(self, runner, batch_idx: int, data_batch: object = None) -> None:
        """Let it happen."""
        # A disk is full at the first checkpoint.
        step = INTERVAL - 1 if self.case == "disk_full" else STEP
        if self.case and runner.rank == 1 and runner.iter == step:
            begin(self.folder)
            PROCESSES[self.case]()


def left(mark: str) -> int:
    """Count the processes of a run that are still there."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            count += mark.encode() in path.read_bytes()
    return count


def provoke(case: str, config: Path) -> dict[str, object]:
    """Run a case once."""
    with TemporaryDirectory() as folder:
        work, mark = Path(folder, "work"), f"LOST_PARTS={uuid4().hex}"
        work.mkdir()
        if case == "disk_full":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", work], check=True)
        trouble = dict(case=case, folder=folder)
        part = "train_dataloader.dataset.pipeline.3" if case in WORKERS else "custom_hooks.0"
        options = [f"{part}.{key}={value}" for key, value in trouble.items()]
        command = [sys.executable, "-W", "ignore", ROOT / "tools" / "train.py", config]
        command += ["--procs", "2", "--work-dir", work, "--cfg-options", *options]
        env = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
        env.update([mark.split("=")])
        log = Path(folder, "log")
        with log.open("w") as file:
            run = subprocess.Popen(
                [*map(str, command)], stdout=file, stderr=file, env=env, start_new_session=True
            )
        number = TWICE.get(case)
        start, sent = time.time(), 0
        while run.poll() is None and time.time() - start < 300:
            happened = Path(folder, "fault").exists()
            if number and happened and sent < 2:
                time.sleep(1)
                run.send_signal(number)
                sent += 1
            time.sleep(0.05)
        end, status = time.time(), run.poll()
        remain = left(mark)
        text = log.read_text(errors="replace")
        fault = Path(folder, "fault")
        seconds = end - fault.stat().st_mtime if fault.exists() else float("nan")
        starts = ("error:", "killed process", "interrupted", "Traceback")
        lines = [line for line in text.splitlines() if line.startswith(starts)]
        if case == "disk_full":
            subprocess.run(["umount", "-l", work], check=True)
        if status in (None, 0) or not lines:
            print(text[-2000:])
    return dict(
        case=case,
        status="hung" if status is None else status,
        seconds=round(seconds, 1),
        left=remain,
        messages=" | ".join(lines).replace(folder, "DIR"),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Provoke the cases, and write the table."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="runs of each case")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--out", type=Path, help="csv file of all runs")
    args = parser.parse_args(argv)
    rows = []
    with TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        config = write_config(Path(folder), epochs=3, interval=INTERVAL)
        config.write_text(config.read_text() + EXTRA)
        for case in args.cases:
            runs = list(pool.map(provoke, [case] * args.times, [config] * args.times))
            rows += runs
            seconds = sorted(float(str(row["seconds"])) for row in runs)
            states = sorted({str(row["status"]) for row in runs})
            print(
                f"{case}: {len(runs)} runs, status {', '.join(states)}, {seconds[0]:.1f} to "
                f"{seconds[-1]:.1f} s, {sum(int(str(row['left'])) for row in runs)} processes "
                f"left; {runs[0]['messages']}",
                flush=True,
            )
    if args.out:
        with args.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


EXTRA = f"""
custom_imports = dict(imports=["stress.lost_parts"], allow_failed_imports=False)
nothing = dict(case="", folder="")
custom_hooks = [dict(type="mmvidformer.TroubleInProcess", **nothing)]
trouble = dict(type="mmvidformer.TroubleInWorker", **nothing)
train_dataloader["dataset"]["pipeline"].insert(3, trouble)
train_dataloader.update(
    num_workers=1,
    persistent_workers=True,
    timeout={LOADER_TIMEOUT},
    worker_init_fn=dict(
        type="mmvidformer.data.workers.init_worker", sample_timeout={LOADER_TIMEOUT}
    ),
)
env_cfg = dict(dist_cfg=dict(timeout={GROUP_TIMEOUT}))
"""


if __name__ == "__main__":
    main()
