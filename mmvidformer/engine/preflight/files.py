"""Files that annotations name."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmvidformer.engine.data_root import is_below
from mmvidformer.engine.preflight.problems import Problem


def read_elsewhere(dataset: Mapping) -> bool:
    """Whether the pipeline reads from another place than this machine's file system."""
    steps = dataset.get("pipeline") or ()
    return any(step.get("io_backend", "disk") not in ("disk", "local") for step in steps)


def check_files(files: Sequence[tuple[str, str, str]], prefix: str, share: float) -> list[Problem]:
    """Look for files by listing their folders, and for those that lead out of the data's folder.

    Args:
        files: Name without prefix, path, and place in the annotations, of each.
        prefix: The prefix of names, for the message.
        share: Share of them that may be missing, where bad videos are replaced.
    """
    outside = _outside(files, prefix)
    if outside is not None:
        return [outside]
    present: dict[str, set[str]] = {}

    def exists(path: str) -> bool:
        # Folders are listed, which costs far less over a network than to ask for each file.
        folder, name = os.path.split(path)
        if folder not in present:
            try:
                present[folder] = set(os.listdir(folder or "."))
            except OSError:
                present[folder] = set()
        names = present[folder]
        return name in names or (not os.path.splitext(name)[1] and f"{name}.mp4" in names)

    unique = {path: (name, where) for name, path, where in reversed(files)}
    missing = [path for path in reversed(unique) if not exists(path)]
    if len(missing) <= share * len(unique):
        return []
    name, where = unique[missing[0]]
    if len(missing) == len(unique):
        remedy = _other_prefix(name, prefix)
    else:
        remedy = "tools/data/check_videos.py writes the annotations without them."
    what = f"{len(missing)} of {len(unique)} files are missing, the first is {missing[0]}"
    return [Problem("missing_files", where, f"{what} (data_prefix {prefix!r})", remedy)]


def _outside(files: Sequence[tuple[str, str, str]], prefix: str) -> Problem | None:
    """The first file that is not below the prefix, as ``DataRootHook`` would refuse it."""
    wrong = [(path, where) for _, path, where in files if prefix and not is_below(path, prefix)]
    if not wrong:
        return None
    path, where = wrong[0]
    what = f"{path} is outside {os.path.abspath(prefix)}, the data_prefix"
    what += f"; {len(wrong)} of {len(files)} entries" if len(files) > 1 else ""
    remedy = "Take out '..' and absolute paths, or mend data_prefix; see DataRootHook."
    return Problem("outside", where, what, remedy)


def _other_prefix(name: str, prefix: str) -> str:
    """Where the first file lies, if it is near."""
    candidates = {
        "": name,
        str(Path(prefix).parent): os.path.join(Path(prefix).parent, name),
    }
    for candidate, path in candidates.items():
        if os.path.exists(path):
            return f"It exists with data_prefix {candidate!r}."
    inside = os.path.join(prefix, os.path.basename(name))
    if os.path.exists(inside):
        return f"{inside} exists: the annotations have folders that the data lack."
    stem = os.path.join(prefix, os.path.splitext(name)[0])
    for extension in (".mp4", ".avi", ".webm", ".mkv", ".MP4"):
        if os.path.exists(stem + extension):
            return f"{stem + extension} exists: the annotations have another extension."
    return "Mend data_prefix or the annotations."
