"""What the methods of fine-tuning reach and cost: a table."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mmengine.config import Config
from tqdm import tqdm

from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.checkpoints.download import fetch
from mmvidformer.checkpoints.reading import read_content, unwrap
from mmvidformer.data.list_folders import VideoLists, read_groups
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.engine.tables import print_table
from mmvidformer.errors import UserError
from mmvidformer.finetune.frozen_features import compute_features
from mmvidformer.finetune.methods import fitting_methods
from mmvidformer.finetune.prepare import RESULT, config_path, read_config, write_config
from mmvidformer.finetune.probes import PROBES
from mmvidformer.finetune.record import TableRecord
from mmvidformer.finetune.rows import videos_of
from mmvidformer.finetune.settings import FinetuneOptions
from mmvidformer.finetune.tally import Tally
from mmvidformer.storage.files import file_size
from mmvidformer.tasks.table import find_task

COLUMNS = {
    "method": "method",
    "accuracy": "accuracy (95% interval)",
    "trained": "trained parameters",
    "file": "checkpoint, MB",
    "memory": "peak memory, MiB",
    "gpu_memory": "of the GPU, MiB",
    "cpu_seconds": "processor, s",
    "seconds": "time, s",
}
UNRECORDED = ("method", "force", "compare")  # options that a table may differ in
UNIT = 2**-20 if sys.platform == "darwin" else 2**-10  # MiB in that of ``ru_maxrss``


def find_right(config: Path, checkpoint: str, lists: VideoLists) -> dict[str, bool]:
    """Test a checkpoint on the center view of each test video; bad videos count as wrong."""
    answers = {}
    recognizer = Recognizer(str(config), checkpoint, clips=1)
    for video, label, _ in tqdm(videos_of(lists, "test"), unit="video", disable=None):
        answers[str(video)] = False
        try:
            answers[str(video)] = recognizer(video).top(1)[0][0] == label
        except (OSError, ValueError) as error:
            tqdm.write(f"counted as wrong: {error}", file=sys.stderr)
    return answers


def measure(command: Sequence[str], log: Path) -> dict[str, float]:
    """Run a command, and return its seconds, those of the processor, and its peak memory in MiB.

    Raises:
        UserError: If it fails.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)  # with its dataloader workers
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise UserError(f"it ended with status {process.returncode}; see {log}")
    seconds, cpu = time.perf_counter() - start, used.ru_utime + used.ru_stime
    return dict(memory=used.ru_maxrss * UNIT, cpu_seconds=cpu, seconds=seconds)


def measure_features(cfg: Config, folder: Path, lists: VideoLists, forms: Sequence[str]) -> dict:
    """Compute features, and return what it took in this process."""
    start, cpu_start = time.perf_counter(), time.process_time()
    model = load_recognizer(cfg, cfg.load_from, None, head=False)
    compute_features(cfg, model, lists, folder, forms)
    return dict(
        method="features",
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT,
        cpu_seconds=time.process_time() - cpu_start,
        seconds=time.perf_counter() - start,
    )


def compare_methods(options: FinetuneOptions, argv: Sequence[str], lists: VideoLists) -> None:
    """Fine-tune with each method, from the same weights; print and save a table.

    ``WORK_DIR/compare.json`` gets the result of each method when it is known. The same command goes
    on after the methods that it has.

    Args:
        options: Options of ``mmvidformer finetune``; ``method`` names those to compare (all).
        argv: The arguments, with which each run starts.
        lists: Lists of one class a video.

    Raises:
        FileExistsError: If the work dir is that of another command, and not ``--force``.
        UserError: If the model or the task do not allow a method.
    """
    task = find_task(options.recipe.task)
    if not task.probes:
        raise UserError(f"--compare needs the task classes, got {task.name}")
    available = fitting_methods(read_config(options), task)
    methods = options.method or available
    for method in methods:
        if method not in available:
            raise UserError(
                f"{options.config} can be trained by {', '.join(available)}, not by {method}"
            )
    argv = [*argv, "--data", str(lists.root)]
    command = options.describe(*UNRECORDED)
    path = config_path(replace(options, force=True), "finetune")
    folder = path.parents[1]
    table_file = folder / "compare.json"
    record = TableRecord(table_file, "method", command, options.force)
    rows = record.rows
    if rows:
        print(f"{table_file} has {', '.join(row['method'] for row in rows)} already")
    else:
        config_path(options, "finetune")  # must be new
    done = {row["method"] for row in rows}
    if available != ("full",):  # all start from the same weights
        if rows:
            cfg = Config.fromfile(path)
        else:
            linear = replace(options, recipe=replace(options.recipe, method="linear"))
            cfg, _ = write_config(linear, lists)
        features = (options.features or folder / "features").absolute()
        argv = [*argv, "--weights", cfg.load_from, "--features", str(features)]
        forms = sorted({PROBES[method].form for method in methods if method in PROBES})
        if forms and "features" not in done:
            record.put(measure_features(cfg, features, lists, forms))
    for method in methods:
        if method in done:
            continue
        work_dir = folder / method
        run = ["--method", method, "--no-compare", "--work-dir", str(work_dir), "--force"]
        arguments = [sys.executable, "-m", "mmvidformer", "finetune", *argv, *run]
        print(f"{method} ...", flush=True)
        try:
            cost = measure(arguments, folder / f"{method}.log")
        except ValueError as error:
            print(f"{method} is left out: {error}", file=sys.stderr)
            continue
        record.put({"method": method, **cost, **read_result(work_dir, lists)})
        print(f"{method}: {rows[-1]['accuracy']}", flush=True)
    _print_rows(rows, folder / "compare.csv")


def read_result(work_dir: Path, lists: VideoLists) -> dict:
    """Read what a run of ``mmvidformer finetune`` reached, and test its checkpoint if need be."""
    result = json.loads((work_dir / "finetune" / RESULT).read_text(encoding="utf-8"))
    checkpoint = result.pop("checkpoint", None)
    if checkpoint:
        state = unwrap(read_content(fetch(checkpoint)), checkpoint).state
        sizes = [x.numel() for name, x in state.items() if not name.endswith("lora_scale")]
        result |= {"file": file_size(checkpoint) / 1e6, "trained": sum(sizes)}
        if "tally" not in result:
            config = work_dir / "finetune" / "config.py"
            answers = find_right(config, checkpoint, lists)
            result["tally"] = Tally.of(answers, read_groups(lists.root)).groups
    result["accuracy"] = str(Tally.read(result["tally"]))
    return result


def _print_rows(rows: Sequence[dict], file: Path) -> None:
    columns = dict(COLUMNS)
    if not any("gpu_memory" in row for row in rows):
        del columns["gpu_memory"]
    table = []
    for row in rows:
        table.append([_cell(row.get(name, "-")) for name in columns])
    print_table(list(columns.values()), table, file=file)


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
