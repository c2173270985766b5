"""Which checkpoints in a folder are of a run: what a checkpoint says of files is not trusted."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mmengine.logging import print_log

from mmvidformer.checkpoints.reading import read_mapped
from mmvidformer.storage.files import join, split_path

# Key of the meta data: seconds since 1970 at which a run started, before anything was resumed.
STARTED = "started"
# Seconds without a change after which a temporary file is one of a killed run.
IDLE = 600.0


def started_of(path: str | Path) -> float | None:
    """Return when the run of a checkpoint started; None if the file is no complete checkpoint."""
    try:
        return float(read_mapped(path)["meta"].get(STARTED, 0))
    except Exception:  # missing, damaged in any way, or not written by MMEngine
        return None


def own_facts(
    facts: Mapping[str, Any], folder: str, name_of: Callable, is_own: Callable[[str], bool]
) -> dict[str, Any]:
    """Return what a resumed checkpoint knows of the files of its run in a folder.

    Files are looked for by their names in the folder, so that a run may be moved or copied. The
    score of a best checkpoint counts only while its file is there.

    Args:
        facts: ``runtime_info`` of MMEngine's message hub.
        folder: Where the run saves checkpoints.
        name_of: Name of the checkpoint of an epoch or a step.
        is_own: Whether a path is a file of the run.
    """
    known = {k: v for k, v in facts.items() if not k.startswith(("best_", "last_ckpt"))}
    steps = [step for step in known.pop("keep_ckpt_ids", []) if isinstance(step, int)]
    kept = [step for step in steps if is_own(join(folder, name_of(step)))]
    if kept:
        known["keep_ckpt_ids"] = kept
    for key, path in facts.items():
        best = join(folder, split_path(str(path))[1])
        if key.startswith("best_ckpt") and is_own(best):
            known[key] = best
            score = key.replace("best_ckpt", "best_score", 1)
            known[score] = facts.get(score)
    return known


def remove_parts(folder: Path) -> None:
    """Delete the temporary files of killed runs. Another run may be writing the newer ones."""
    for path in folder.glob(".*.part"):
        if path.stat().st_mtime < time.time() - IDLE:
            path.unlink(missing_ok=True)
            message = f"removed {path.name}, the unfinished file of a killed run"
            print_log(message, logger="current", level=logging.WARNING)
