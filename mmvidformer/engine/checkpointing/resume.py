import logging
import zipfile
from pathlib import Path

from mmengine.logging import print_log

# The checkpoint that a run saves when a signal stops it.
INTERRUPTED = "interrupted.pth"


def is_intact(path: Path) -> bool:
    """Whether a checkpoint is as it was written, by the checksums of PyTorch's zip archives."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError):
        return False


def latest_checkpoint(work_dir: str | Path) -> str | None:
    """Find the newest intact checkpoint of a training run, by the time of the files.

    If the folder of the run has none, those in the folder that MMEngine's ``last_checkpoint`` names
    are searched. Damaged ones are skipped with a warning. Reads files whole: call it on one rank.

    Raises:
        ValueError: If all checkpoints are damaged.
    """
    note = Path(work_dir, "last_checkpoint")
    noted = Path(note.read_text(errors="replace").strip() if note.is_file() else "")
    found = _newest_first(Path(work_dir)) or (_newest_first(noted.parent) if noted.name else [])
    for path in found:
        if is_intact(path):
            return str(path)
        print_log(f"skipped {path}: it is damaged", logger="current", level=logging.WARNING)
    if found:
        names = ", ".join(path.name for path in found)
        raise ValueError(f"all checkpoints in {work_dir} are damaged ({names}); remove them")
    return None


def _newest_first(folder: Path) -> list[Path]:
    patterns = ("epoch_*.pth", "iter_*.pth", INTERRUPTED)
    found = [path for pattern in patterns for path in folder.glob(pattern)]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)
