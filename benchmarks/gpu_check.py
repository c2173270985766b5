"""Check the package on a GPU, and measure its speed there.

bash tools/gpu_check.sh --out reports/benchmark/gpu

Runs the parts in benchmarks/gpu_parts.py, each in a process of its own with a time limit, so a part
that fails or hangs does not stop the others. Checks run side by side, what is timed runs alone
after them. Parts that do not fit into --minutes are skipped; without a GPU all are.

Each part has a log and its own tables in the folder.
gpu_check.csv has a row per part, gpu_check.json all tables, gpu_check.png the TFLOP/s of models.
The exit status is 1 if a part failed. --tiny runs tiny models on the CPU, to test this script.
"""

import csv
import datetime
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

from benchmarks.gpu_parts import PARTS, Part, peak_of
from benchmarks.versions import versions

ROOT = Path(__file__).resolve().parents[1]
SPEED_PARTS = ("speed", "speed_blocks", "speed_compiled")


@dataclass
class Outcome:
    """What became of a part.

    Args:
        part: Its name.
        status: ``'ran'``, ``'skipped'`` or ``'failed'``.
        seconds: Time that it took.
        shows: What it shows, or would have shown.
        reason: Why it was skipped or failed.
        rows: Its table.
    """

    part: str
    status: str
    seconds: float
    shows: str
    reason: str = ""
    rows: list[dict[str, str]] = field(default_factory=list)


def describe(outcome: Outcome) -> str:
    """Return what a part shows, or why it does not."""
    if outcome.status == "skipped":
        return f"{outcome.reason}; it would show {outcome.shows}"
    return f"{outcome.reason}; " * bool(outcome.reason) + outcome.shows


def device_name() -> tuple[str, str]:
    """Return the name of the GPU (empty without one), and why there is none."""
    try:
        import torch
    except ImportError as error:
        return "", f"PyTorch cannot be imported: {error}"
    if not torch.cuda.is_available():
        return "", "PyTorch finds no GPU"
    return torch.cuda.get_device_name(), ""


def run_part(part: Part, command: str, out: Path, seconds: float) -> Outcome:
    """Run a part for at most so many seconds, and read its table."""
    path, log = out / part.name, out / f"{part.name}.log"
    target = f"--junit-xml={path}.xml" if command.startswith("pytest") else f"--out={path}"
    for old in (f"{path}.csv", f"{path}.xml"):
        Path(old).unlink(missing_ok=True)
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    start, stopped = time.monotonic(), False
    with open(log, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *shlex.split(command), target],
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"},
            start_new_session=True,  # so that its own children can be stopped with it
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            stopped = True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    outcome = Outcome(part.name, "ran", time.monotonic() - start, part.shows)
    outcome.rows, skipped = read_rows(path)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if stopped:
        outcome.status = "failed"
        outcome.reason = f"stopped after {seconds:.0f} s; rows so far: {len(outcome.rows)}"
    elif process.returncode:
        outcome.status, outcome.reason = "failed", f"{lines[-1] if lines else ''} (see {log.name})"
    elif skipped:
        outcome.status, outcome.reason = "skipped", skipped
    return outcome


def read_rows(path: Path) -> tuple[list[dict[str, str]], str]:
    """Return the table of a part, and why all of its tests were skipped, if they were."""
    table, report = Path(f"{path}.csv"), Path(f"{path}.xml")
    if table.is_file():
        with open(table, newline="") as file:
            return list(csv.DictReader(file)), ""
    if not report.is_file():
        return [], ""
    rows, reasons = [], []
    for case in ET.parse(report).iter("testcase"):
        marks = [child for child in case if child.tag in ("skipped", "failure", "error")]
        rows.append({"test": case.get("name", ""), "result": marks[0].tag if marks else "passed"})
        reasons += [mark.get("message", "") for mark in marks if mark.tag == "skipped"]
    return rows, reasons[0] if rows and len(reasons) == len(rows) else ""


def add_speed(rows: Sequence[dict[str, str]], peak: float | None) -> None:
    """Add TFLOP/s, and their share of the device's peak if it is known, to a table of models."""
    for row in rows:
        passes = 1 if row["pass"] == "inference" else 3
        tflops = 2 * passes * float(row["G MACs"]) * float(row["clips/s"]) / 1000
        row["TFLOP/s"] = f"{tflops:.3g}"
        row["share of the device's peak"] = f"{tflops / peak:.3f}" if peak else "unknown"


def panels_of(outcomes: Sequence[Outcome]) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the bars of the plot: TFLOP/s of each model, and those of a large matmul."""
    panels: dict[str, dict[str, tuple[float, float]]] = {}
    for outcome in outcomes:
        for row in outcome.rows if outcome.part in SPEED_PARTS else ():
            tflops, share = float(row["TFLOP/s"]), float(row["fraction of peak matmul"])
            panel = panels.setdefault(f"{outcome.part}: {row['config']}, {row['pass']}", {})
            panel[row["model"]] = (tflops, tflops / share if share else tflops)
    return panels


def write(out: Path, about: Mapping[str, str], outcomes: Sequence[Outcome]) -> None:
    """Write the three files."""
    columns = ("part", "status", "seconds", "shows", "reason")
    rows = [[o.part, o.status, f"{o.seconds:.0f}", o.shows, o.reason] for o in outcomes]
    with open(out / "gpu_check.csv", "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    content = {**about, "parts": [asdict(outcome) for outcome in outcomes]}
    (out / "gpu_check.json").write_text(json.dumps(content, indent=2) + "\n")
    panels = panels_of(outcomes)
    if panels:
        from benchmarks.plots import draw_bars  # needs matplotlib, which may be missing before

        draw_bars(panels, "TFLOP/s", "large matmul").savefig(out / "gpu_check.png")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts, print and write; return the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("work_dirs/gpu_check"), help="folder")
    parser.add_argument("--parts", nargs="+", choices=[part.name for part in PARTS])
    parser.add_argument("--minutes", type=float, default=9.0, help="for all parts (default 9)")
    parser.add_argument("--spent", type=float, default=0.0, help="seconds of them already spent")
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU")
    args = parser.parse_args(argv)
    deadline = time.monotonic() + 60 * args.minutes - args.spent
    args.out.mkdir(parents=True, exist_ok=True)
    name, missing = ("CPU, tiny models", "") if args.tiny else device_name()
    peak = peak_of(name)
    outcomes: list[Outcome] = []
    about = {
        "machine": name or missing,
        "peak": f"{peak} TFLOP/s (bf16, data sheet)" if peak else "unknown",
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
    }

    def run(part: Part) -> Outcome:
        command, left = part.tiny if args.tiny else part.command, deadline - time.monotonic()
        reason = missing or ("this part needs a GPU" if command is None else "")
        if not reason and left < 10:
            reason = f"the {args.minutes:g} minutes are over"
        if reason:
            return Outcome(part.name, "skipped", 0.0, part.shows, reason)
        return run_part(part, command, args.out.resolve(), min(60 * part.minutes, left))

    chosen = [part for part in PARTS if not args.parts or part.name in args.parts]
    with ThreadPoolExecutor(max((os.cpu_count() or 1) // 2, 1)) as pool:
        checks = pool.map(run, [part for part in chosen if not part.timed])
        for outcome in chain(checks, map(run, [part for part in chosen if part.timed])):
            if outcome.part in SPEED_PARTS:
                add_speed(outcome.rows, peak)
            outcomes.append(outcome)
            print(f"{outcome.part:15}{outcome.status:9}{outcome.seconds:4.0f} s", flush=True)
            write(args.out, about, outcomes)  # after each one, in case this process is stopped
    print(f"\n{about['machine']}")
    for o in outcomes:
        print(f"{o.part:15}{o.status:9}{o.seconds:4.0f} s  {describe(o)}")
    print(f"results: {args.out}")
    return int(any(outcome.status == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
