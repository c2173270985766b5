"""Video files of a folder, and whether they can be read."""

from collections.abc import Iterable
from pathlib import Path

SUFFIXES = frozenset(
    ".3gp .avi .flv .m4v .mkv .mov .mp4 .mpeg .mpg .ts .webm .wmv".split()
)  # fmt: skip


def find_videos(folder: str | Path) -> tuple[list[Path], list[Path]]:
    """Find the video files of a folder and all folders in it, told by their suffixes.

    Files and folders whose names begin with a dot are passed over.

    Args:
        folder: The folder.

    Returns:
        Video files, and all other files, both sorted.

    Raises:
        NotADirectoryError: If there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}")
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _is_hidden(path.relative_to(folder).parts)
    ]
    videos = [path for path in files if path.suffix.lower() in SUFFIXES]
    return videos, [path for path in files if path.suffix.lower() not in SUFFIXES]


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") for part in parts)


def why_unreadable(path: str | Path) -> str | None:
    """Open a video with decord, as the shipped configs do, and decode its first frame.

    Returns:
        None if that works, else what went wrong, in a line.
    """
    import decord

    if not Path(path).is_file():
        return "there is no such file"
    try:
        reader = decord.VideoReader(str(path), num_threads=1)
        if len(reader) == 0:
            return "it has no frames"
        reader[0]
    except Exception as error:  # decord raises errors of several kinds of its own
        return (str(error).strip().splitlines() or [type(error).__name__])[-1][:120]
    return None
