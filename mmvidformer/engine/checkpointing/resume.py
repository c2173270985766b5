"""Which checkpoint to resume from after training was cut off."""

import logging
import zipfile
from pathlib import Path

from mmengine.logging import print_log

from mmvidformer.engine.checkpointing.shards import shard_files

# The checkpoint that a run saves when a signal stops it.
INTERRUPTED = "interrupted.pth"


def is_intact(path: Path) -> bool:
    """Whether a checkpoint, a PyTorch file or a folder of shards, is as it was written.

    A PyTorch file is a zip archive. A file that was cut off lacks the directory at the end, which
    shows at once. Other damage shows in the checksums, which PyTorch does not compare.
    """
    try:
        for file in shard_files(path) if path.is_dir() else [path]:
            with zipfile.ZipFile(file) as archive:
                if archive.testzip() is not None:
                    return False
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError):
        return False
    return True


def latest_checkpoint(work_dir: str | Path) -> str | None:
    """Find the newest intact checkpoint of a training run.

    Reads the file that it returns in full, so call it on one rank only; damaged ones before it are
    skipped with a warning. MMEngine's own search trusts the file ``last_checkpoint``, which may
    name a checkpoint that was cut off. That file holds an absolute path: if the folder was moved or
    copied, the checkpoint of the same name in ``work_dir`` is taken.

    Args:
        work_dir: Folder of the run.

    Returns:
        Path of a file or of a folder of shards. None if the folder has no checkpoints.

    Raises:
        ValueError: If all checkpoints are damaged.
    """
    work_dir = Path(work_dir)
    patterns = ("epoch_*.pth", "iter_*.pth", INTERRUPTED)
    found = [path for pattern in patterns for path in work_dir.glob(pattern)]
    found.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    note = work_dir / "last_checkpoint"
    if note.is_file():
        noted = Path(note.read_text(errors="replace").strip())  # it may be damaged too
        here = work_dir / noted.name
        if noted.name and here.exists():
            found.insert(0, here)
        elif not found and noted.exists():
            found.append(noted)
    for path in dict.fromkeys(found):
        if is_intact(path):
            return str(path)
        print_log(f"skipped {path}: it is damaged", logger="current", level=logging.WARNING)
    if found:
        names = ", ".join(sorted({path.name for path in found}))
        raise ValueError(f"all checkpoints in {work_dir} are damaged ({names}); remove them")
    return None
