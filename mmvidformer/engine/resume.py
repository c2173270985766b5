"""Which checkpoint to go on from after training was cut off."""

import zipfile
from pathlib import Path

from mmvidformer.engine.shards import is_complete


def latest_checkpoint(work_dir: str | Path) -> str | None:
    """Find the newest whole checkpoint of a training run.

    MMEngine goes by its ``last_checkpoint`` note alone. It writes checkpoints in place, and the
    newest one a second time after validation, so a run killed while writing leaves a cut file
    under that very name. A PyTorch file is a zip archive, whose directory comes last: a cut
    one is told by that. A checkpoint in shards is a folder that says so when it is complete.

    Args:
        work_dir: Folder of the run.

    Returns:
        Path of the checkpoint, a file or a folder of shards, or None if the folder holds none.

    Raises:
        RuntimeError: If it holds checkpoints, none of them whole.
    """
    work_dir = Path(work_dir)
    found = [*work_dir.glob("epoch_*.pth"), *work_dir.glob("iter_*.pth")]
    found.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    note = work_dir / "last_checkpoint"
    if note.is_file():
        noted = Path(note.read_text().strip())
        if noted.exists():
            found.insert(0, noted)
    for path in found:
        if is_complete(path) or zipfile.is_zipfile(path):
            return str(path)
    if found:
        names = ", ".join(sorted({path.name for path in found}))
        raise RuntimeError(f"no checkpoint in {work_dir} is whole ({names}); remove them")
    return None
