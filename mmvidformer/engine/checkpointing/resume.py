"""Which checkpoint to resume from after training was cut off."""

import logging
import zipfile
from pathlib import Path

from mmengine.logging import print_log

# The checkpoint that a run saves when a signal stops it.
INTERRUPTED = "interrupted.pth"


def latest_checkpoint(work_dir: str | Path) -> str | None:
    """Find the last complete checkpoint of a training run.

    That is the one that MMEngine's file ``last_checkpoint`` names, else the newest. If the folder
    has none, the one to which that file points is searched (``CheckpointHook(out_dir=...)``).

    Files that were cut off are skipped with a warning. A PyTorch file is a zip archive, whose
    directory is at the end.

    Args:
        work_dir: Folder of the run.

    Returns:
        Path of a file. None if there is no checkpoint.

    Raises:
        ValueError: If all checkpoints are incomplete.
    """
    folder, note = Path(work_dir), Path(work_dir, "last_checkpoint")
    text = note.read_text(errors="replace") if note.is_file() else ""
    noted = Path(text.replace("\0", "").strip())
    found = _newest_first(folder) or (_newest_first(noted.parent) if noted.name else [])
    for path in sorted(found, key=lambda path: path.name != noted.name):
        if zipfile.is_zipfile(path):
            return str(path)
        print_log(f"skipped {path}: it is incomplete", logger="current", level=logging.WARNING)
    if found:
        names = ", ".join(sorted({path.name for path in found}))
        raise ValueError(f"all checkpoints in {folder} are incomplete ({names}); remove them")
    return None


def _newest_first(folder: Path) -> list[Path]:
    patterns = ("epoch_*.pth", "iter_*.pth", INTERRUPTED)
    found = [path for pattern in patterns for path in folder.glob(pattern)]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)
