import logging
import math
from pathlib import Path

from mmengine.logging import print_log

from mmvidformer.checkpoints.download import fetch
from mmvidformer.checkpoints.reading import is_intact, read_mapped
from mmvidformer.engine.checkpointing.own_files import STARTED
from mmvidformer.errors import UserError
from mmvidformer.storage.files import exists, is_remote, join, split_path

# The checkpoint that a run saves when a signal stops it.
INTERRUPTED = "interrupted.pth"
# MMEngine's file beside the logs of a run, which names its last checkpoint.
LAST = "last_checkpoint"


def latest_checkpoint(work_dir: str | Path) -> str | None:
    """Find the intact checkpoint of the latest start of a run that has made the most steps.

    If the folder of the run has none, those in the folder that ``LAST`` names are searched, or in
    object storage the named one is taken. Damaged ones are skipped with a warning. Reads files
    whole: call it on one rank.

    Raises:
        UserError: If all checkpoints are damaged.
    """
    noted = _noted_in(Path(work_dir))
    checkpoints = checkpoints_in(Path(work_dir))
    if not checkpoints and is_remote(noted):
        return noted if exists(noted) else None
    if not checkpoints and Path(noted).name:
        checkpoints = checkpoints_in(Path(noted).parent)
    for path in sorted(checkpoints, key=_progress, reverse=True):
        if is_intact(path):
            return str(path)
        print_log(f"skipped {path}: it is damaged", logger="current", level=logging.WARNING)
    if checkpoints:
        names = ", ".join(path.name for path in checkpoints)
        raise UserError(f"all checkpoints in {work_dir} are damaged ({names}); remove them")
    return None


def best_checkpoint(work_dir: str | Path) -> str | None:
    """Return the best checkpoint of a run, or the last if none is best; None if it saved none."""
    last = _noted_in(Path(work_dir))
    if not last:
        return None
    facts = read_mapped(fetch(last))["message_hub"]["runtime_info"]
    names = [split_path(str(path))[1] for key, path in facts.items() if key.startswith("best_ckpt")]
    best = [join(split_path(last)[0], name) for name in names]
    return [last, *filter(exists, best)][-1]


def _noted_in(work_dir: Path) -> str:
    """Return what the note of a run names; empty if it has none."""
    note = work_dir / LAST
    return note.read_text(encoding="locale", errors="replace").strip() if note.is_file() else ""


def checkpoints_in(folder: Path) -> list[Path]:
    """Find the checkpoints in a folder from which a run may be resumed."""
    patterns = ("epoch_*.pth", "iter_*.pth", INTERRUPTED)
    return [path for pattern in patterns for path in folder.glob(pattern)]


def _progress(path: Path) -> tuple[float, ...]:
    """Sort key by what a checkpoint says of itself; that which says nothing is the last resort.

    Copies have new times, so that the time of the file decides between equals only.
    """
    changed = path.stat().st_mtime_ns
    try:
        meta = read_mapped(path)["meta"]
        # Steps are counted anew if an epoch has another length, so that epochs come first.
        return float(meta.get(STARTED, 0)), int(meta["epoch"]), int(meta["iter"]), changed
    except Exception:  # damaged in any way, or not written by MMEngine
        if is_intact(path):
            return -1.0, 0, 0, changed
        return math.inf, 0, 0, changed  # first, so that it is named
