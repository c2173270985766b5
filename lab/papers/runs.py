"""Training and testing the rows of a table."""

import contextlib
import ctypes
import json
import re
import signal
import sys
from pathlib import Path
from subprocess import STDOUT, Popen, TimeoutExpired

from mmengine.config import Config
from tqdm import tqdm

from lab.papers.rows import PublishedRow, Table
from mmvidformer.config import load_config
from mmvidformer.config.rows import Options
from mmvidformer.errors import LostProcess, UserError

STEP = re.compile(r"Epoch\(\w+\)\s+(?:\[ *\d+\])?\[[ \d]+/\d+\]")  # in a line of MMEngine's log


def measure(
    table: Table,
    row: PublishedRow,
    seed: int,
    folder: Path,
    *,
    miniature: bool,
    procs: int,
    common: Options,
) -> dict[str, float]:
    """Train and test a row with one seed, unless that is done, and return its metrics.

    A training run that was stopped is resumed. Rows of a table that differ in their tests only are
    trained once. ``folder``, ``TABLE/ROW/seed_N``, gets the logs ``train.log`` and
    ``test.log``, the checkpoints, and the metrics; the config lies beside it.

    Args:
        table: The row's table.
        row: The row.
        seed: Random seed.
        folder: Folder of this run.
        miniature: Whether to run the miniature.
        procs: Number of processes. If the batch is then not the recipe's, the learning rate is
            scaled by the linear rule, and a line says so.
        common: Overrides of all rows.

    Raises:
        UserError: If the row cannot be run, or the folder has results or checkpoints of other
            settings.
        ChildProcessError: If training or testing fails.
    """
    name, options = table.recipe(row, miniature, has_start=True)  # the options name the weights
    cfg = load_config(name, {**options, **common})
    cfg.num_processes = procs  # not read by a run; another number is another batch
    scaling = scale_rate(cfg, procs)
    if scaling:
        tqdm.write(f"{row.name}: {scaling}")
    config = folder.with_suffix(".py")  # a run writes its own, changed one into the folder
    folder.mkdir(parents=True, exist_ok=True)
    begun = config.exists() and ((folder / "last_checkpoint").exists() or results(folder))
    old = config.read_text(encoding="utf-8") if begun else None
    cfg.dump(config)
    if old not in (None, config.read_text(encoding="utf-8")):
        config.write_text(old, encoding="utf-8")
        raise UserError(f"{folder} has a run with other settings; use another --work-dir")
    if results(folder):
        return results(folder)
    options: list[object] = ["--work-dir", folder]
    if procs > 1:
        options += ["--procs", procs]
    trained = _trained_alike(cfg, folder)
    if trained:
        tqdm.write(f"{row.name} is trained as {trained.parent.name}")
    else:
        trained = folder
        _run(folder / "train.log", "train", config, "--seed", seed, "--resume", *options)
    checkpoint = (trained / "last_checkpoint").read_text()
    _run(folder / "test.log", "test", config, checkpoint, *options)
    return results(folder)


def scale_rate(cfg: Config, procs: int) -> str:
    """Let MMEngine scale the learning rate to the batch of ``procs`` processes, in place.

    The linear rule (Goyal et al. 2017): rate x batch / ``auto_scale_lr.base_batch_size``. A config
    without that number keeps its rate.

    Returns:
        What changes, as a sentence; empty if the batch is the recipe's or not known.
    """
    recipe_batch = (cfg.get("auto_scale_lr") or {}).get("base_batch_size")
    if recipe_batch is None:
        return ""
    steps = cfg.optim_wrapper.get("accumulative_counts", 1)
    batch = procs * cfg.train_dataloader.batch_size * steps
    # MMEngine compares a single step of all processes, without the accumulated ones.
    cfg.auto_scale_lr = dict(enable=True, base_batch_size=recipe_batch / steps)
    if batch == recipe_batch:
        return ""
    return f"the learning rate is scaled by {batch} / {recipe_batch}, the batch here / the recipe's"


def training_part(cfg: Config) -> dict:
    """Settings that training depends on: those whose names do not begin with ``test_``."""
    return {key: value for key, value in cfg.to_dict().items() if not key.startswith("test_")}


def _trained_alike(cfg: Config, folder: Path) -> Path | None:
    """Find a tested run of the same table and seed whose config differs in its tests only."""
    for config in sorted(folder.parents[1].glob(f"*/{folder.name}.py")):
        other = config.with_suffix("")
        if other != folder and (other / "last_checkpoint").exists() and results(other):
            if training_part(Config.fromfile(config)) == training_part(cfg):
                return other
    return None


def results(folder: Path) -> dict[str, float]:
    """Metrics of the test in a run's folder; empty if it has not been tested."""
    files = sorted(folder.glob("test_*_*.json"))
    return json.loads(files[0].read_text())["metrics"] if files else {}


def generate(table: Table) -> None:
    """Generate the videos of a table's miniature, unless they are there.

    Raises:
        ChildProcessError: If that fails.
    """
    if table.miniature is not None:
        folder, *options = table.miniature.data.split()
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
        _run(Path(f"{folder}.log"), "generate", folder, *options, program="lab")


def _run(log: Path, *arguments: object, program: str = "mmvidformer") -> None:
    """Run a command of a program with its output in a file, and show how far it has come."""
    command = [sys.executable, "-m", program, *map(str, arguments)]
    start = _end_with_parent if sys.platform == "linux" else None
    show = dict(desc=str(log), bar_format="{desc} {postfix}", leave=False, disable=None)
    with open(log, "a", encoding="utf-8") as out, tqdm(**show) as bar:
        with Popen(command, stdout=out, stderr=STDOUT, preexec_fn=start) as process:
            try:
                while process.poll() is None:
                    with contextlib.suppress(TimeoutExpired):
                        process.wait(2)
                    steps = STEP.findall(log.read_text(encoding="utf-8"))
                    bar.set_postfix_str(steps[-1] if steps else "")
            finally:
                process.terminate()
    if process.returncode:
        end = log.read_text(encoding="utf-8").strip().splitlines()[-1:] or [""]
        raise LostProcess(f"{' '.join(map(str, arguments[:2]))} failed: {end[0]} (see {log})")


def _end_with_parent() -> None:
    """Let the system end this process if its parent is killed, or a second run would meet it."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
