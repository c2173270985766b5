"""Which checkpoint to go on from after training was cut off."""

import logging
import zipfile
from pathlib import Path

from mmengine.logging import print_log

from mmvidformer.engine.checkpointing.shards import is_complete

# The state that a run saves when it is told to stop.
INTERRUPTED = "interrupted.pth"


def is_whole(path: Path) -> bool:
    """Whether a PyTorch file has all its parts, each as it was written."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError):
        return False


def latest_checkpoint(work_dir: str | Path) -> str | None:
    """Find the newest whole checkpoint of a training run.

    MMEngine goes by its ``last_checkpoint`` note alone, and its own hook writes checkpoints in
    place, so that a killed run leaves a cut file under that very name. A disk may damage one
    later. A PyTorch file is a zip archive: a cut one lacks the directory at the end, and other
    damage shows in the checksums, which PyTorch does not look at. A checkpoint in shards is a
    folder that says so when it is complete. Each that is passed over is logged.

    The note has a whole path. In a folder that was moved or copied that is another place, so the
    file of that name in ``work_dir`` is meant.

    Args:
        work_dir: Folder of the run.

    Returns:
        Path of the checkpoint, a file or a folder of shards, or None if the folder holds none.

    Raises:
        RuntimeError: If it holds checkpoints, none of them whole.
    """
    work_dir = Path(work_dir)
    patterns = ("epoch_*.pth", "iter_*.pth", INTERRUPTED)
    found = [path for pattern in patterns for path in work_dir.glob(pattern)]
    found.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    note = work_dir / "last_checkpoint"
    if note.is_file():
        noted = Path(note.read_text(errors="replace").strip())  # a disk may damage it too
        here = work_dir / noted.name
        if noted.name and here.exists():
            found.insert(0, here)
        elif not found and noted.exists():
            found.append(noted)
    for path in dict.fromkeys(found):
        if is_complete(path) or is_whole(path):
            return str(path)
        print_log(
            f"{path} is damaged and passed over: it was cut off, or its checksums are wrong",
            logger="current",
            level=logging.WARNING,
        )
    if found:
        names = ", ".join(sorted({path.name for path in found}))
        raise RuntimeError(f"no checkpoint in {work_dir} is whole ({names}); remove them")
    return None
