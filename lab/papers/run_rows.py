"""Running the rows of a table, from given weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mmengine.config import Config
from tqdm import tqdm

from lab.papers.rows import PublishedRow, Table
from lab.papers.runs import generate, measure, results
from lab.papers.summary import is_of_others
from mmvidformer.config import load_config, merge_overrides
from mmvidformer.config.rows import Options
from mmvidformer.errors import MissingFile, UserError

RANDOM = "random weights"


def start_of(cfg: Config) -> str:
    """Source of the weights that training starts from, or ``RANDOM``."""
    start = cfg.get("load_from") or cfg.model.backbone.get("init_from")
    start = start or " and ".join(_pretrained(cfg).values())
    return (start.get("source") if isinstance(start, Mapping) else start) or RANDOM


def _pretrained(cfg: Config) -> dict[str, str]:
    """Weights that a backbone of MMAction2 starts from, by their keys in the config."""
    backbone = cfg.model.backbone
    parts = {"": backbone, ".slow_pathway": backbone.get("slow_pathway") or {}}
    named = {key: part.get("pretrained") for key, part in parts.items()}
    return {f"model.backbone{key}.pretrained": name for key, name in named.items() if name}


def with_start(cfg: Config, start: str | None) -> Options:
    """Overrides that let a config start from other weights.

    Args:
        cfg: The config.
        start: A source of its backbone's ``init_from``, ``none`` for random weights, or None for
            the config's own.
    """
    if start is None:
        return {}
    if is_of_others(cfg):  # which has no init_from
        own = dict.fromkeys(_pretrained(cfg))
        return {"load_from": None if start == "none" else start, **own}
    if start != "none" and isinstance(cfg.model.backbone.get("init_from"), Mapping):
        return {"load_from": None, "model.backbone.init_from.source": start}
    return {"load_from": None, "model.backbone.init_from": None if start == "none" else start}


def check_start(row: PublishedRow, start: str, is_own: bool) -> None:
    """Raise a ``FileNotFoundError`` if a row starts from a file that does not exist.

    Args:
        row: The row.
        start: What it starts from.
        is_own: Whether its recipe says so, not the user.
    """
    path = Path(start)
    is_address = ":" in start  # such as timm:NAME and published://NAME
    if start == RANDOM or is_address or path.exists():
        return
    hint = "--start names other weights"
    if is_own and path.parts[0] == "work_dirs":
        hint = f"mmvidformer train {path.parent.name} writes it, and {hint}"
    raise MissingFile(f"{row.name} starts from {start}, which does not exist; {hint}")


def run_rows(
    table: Table,
    rows: Sequence[PublishedRow],
    seeds: Sequence[int],
    folder: Path,
    *,
    miniature: bool,
    procs: int,
    common: Options,
    start: str | None = None,
    skip: bool = False,
) -> None:
    """Train and test rows of a table, after saying from which weights each of them starts.

    Args:
        table: The table.
        rows: Its rows to run.
        seeds: Random seeds. All rows of a seed come before the next seed.
        folder: Folder of the runs, each in ``PAPER/TABLE/ROW/seed_N``.
        miniature: Whether to run the miniatures; their videos are generated first.
        procs: Number of processes of a run.
        common: Overrides of all rows.
        start: See ``with_start``.
        skip: Whether to skip rows that cannot be run, and say so.

    Raises:
        UserError: If no row can be run or, without ``skip``, one of them cannot.
        FileNotFoundError: If a row starts from a file that does not exist, before anything runs.
        ChildProcessError: As ``measure``.
    """
    jobs = []
    for row in rows:
        try:
            name, options = table.recipe(row, miniature, has_start=start is not None)
        except ValueError as error:
            if not skip:
                raise
            print(f"skipped: {error}")
            continue
        cfg = load_config(name, {**options, **common})
        overrides = {**common, **with_start(cfg, start)}
        merge_overrides(cfg, overrides)
        if not all(results(folder / row.name / f"seed_{seed}") for seed in seeds):
            check_start(row, start_of(cfg), is_own=start is None)
        jobs.append((row, overrides))
        other = f"; the published figure from {row.start}" if row.start and not miniature else ""
        print(f"{row.name} starts from {start_of(cfg)}{other}", flush=True)
    if not jobs:
        raise UserError(f"no row of {table.name} can be run")
    if miniature:
        generate(table)
    with tqdm(total=len(seeds) * len(jobs), unit="run", disable=None) as bar:
        for seed in seeds:
            for row, overrides in jobs:
                bar.set_postfix_str(f"{row.name}, seed {seed}")
                place = folder / row.name / f"seed_{seed}"
                if not results(place):
                    tqdm.write(f"{row.name}, seed {seed}: logs in {place}")
                measure(table, row, seed, place, miniature=miniature, procs=procs, common=overrides)
                bar.update()
