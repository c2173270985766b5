"""Start dataloader workers, or whole runs, many times: python -m stress.soak {starts,runs} ...

    python -m stress.soak starts --count 20000          # two processes, beside two busy ones
    python -m stress.soak starts --start-method fork    # what MMAction2's configs do: it hangs
    python -m stress.soak runs --count 30               # runs of vivit_fe_motion

``starts`` lets each of two processes start its workers at once after a collective, in each of many
epochs. ``runs`` needs data/motion (python -m lab generate). Ends with status 1 at the
first start or run that hangs or fails.
"""

import os
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import set_forkserver_preload
from pathlib import Path
from tempfile import TemporaryDirectory

from mmengine.config import Config
from mmengine.dist import all_gather_object, get_world_size, is_main_process
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from mmengine.utils.dl_utils import set_multi_processing

from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.launch import PRELOADED
from mmvidformer.engine.process_group import join_processes, start_processes

ROOT = Path(__file__).parents[1]
WORKERS = 2  # of each process


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep processors busy."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def start_workers(method: str, count: int, timeout: int) -> None:
    """Start workers until there were ``count`` in all processes."""
    # The run of vivit_fe_motion: its start method, and what its workers do first.
    init = dict(type="mmvidformer.data.workers.init_worker") if method == "forkserver" else None
    set_forkserver_preload(PRELOADED)
    environment = dict(dist_cfg=dict(timeout=timeout))
    set_multi_processing(method, distributed=True)
    join_processes(Config(dict(launcher="pytorch", env_cfg=environment)))
    init_default_scope("mmvidformer")
    loader = Runner.build_dataloader(
        dict(
            dataset=list(range(WORKERS * get_world_size())),
            batch_size=1,
            num_workers=WORKERS,
            timeout=timeout,
            sampler=dict(type="ResumableSampler"),
            **(dict(worker_init_fn=init) if init else {}),
        ),
        seed=0,
    )
    start, done, shown = time.monotonic(), 0, 0
    while done < count:
        all_gather_object([done])
        assert len([*loader]) == WORKERS
        done += WORKERS * get_world_size()
        if is_main_process() and (done - shown >= 1000 or done >= count):
            shown = done
            print(f"{done} starts in {time.monotonic() - start:.0f} s", flush=True)


def train(times: int, config: str, limit: float, options: Sequence[str]) -> int:
    """Train in two processes, several times, and print the status and the time of each run."""
    for number in range(1, times + 1):
        with TemporaryDirectory() as folder:
            command = [sys.executable, ROOT / "tools" / "train.py", config, "--procs", "2"]
            command += ["--seed", str(number), "--work-dir", folder, "--cfg-options"]
            command += ["train_dataloader.batch_size=8", *options]
            start, log = time.monotonic(), Path(folder, "output.log")
            with log.open("w") as output:
                run = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output)
                try:
                    status: object = run.wait(limit)
                except subprocess.TimeoutExpired:
                    status = "hung"
                    run.kill()
            seconds = time.monotonic() - start
            best = [line for line in log.read_text().splitlines() if "Epoch(val)" in line][-1:]
            metrics = ""
            if best:
                metrics = best[0].partition("Epoch(val)")[2].split("data_time")[0].strip()
            print(f"run {number}: status {status}, {seconds:.0f} s, {metrics}", flush=True)
            if status != 0:
                print(log.read_text()[-3000:])
                return 1
    return 0


def main(argv: Sequence[str] | None = None) -> int | None:
    """Start workers or runs."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["starts", "runs"])
    parser.add_argument("--count", type=int, default=20_000, help="workers or runs to start")
    parser.add_argument("--busy", type=int, default=2, help="busy processes beside it (default: 2)")
    parser.add_argument("--start-method", default="forkserver", choices=["forkserver", "fork"])
    parser.add_argument("--timeout", type=int, default=60, help="seconds that a worker may take")
    parser.add_argument("--config", default="configs/vivit_fe_motion.py", help="what runs train")
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a run may take")
    parser.add_argument("--launcher", help="set in the processes that it starts itself")
    args, options = parser.parse_known_args(argv)
    if args.launcher:
        return start_workers(args.start_method, args.count, args.timeout)
    with busy_processes(args.busy):
        if args.what == "runs":
            return train(args.count, args.config, args.limit, options)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        return start_processes([__file__, *(sys.argv[1:] if argv is None else argv)], 2)


if __name__ == "__main__":
    sys.exit(run_tool(main))
