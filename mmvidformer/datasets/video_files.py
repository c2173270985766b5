"""Video files of a folder."""

from pathlib import Path

SUFFIXES = frozenset(
    ".3gp .avi .flv .m4v .mkv .mov .mp4 .mpeg .mpg .ts .webm .wmv".split()
)  # fmt: skip


def find_videos(folder: str | Path) -> tuple[list[Path], list[Path]]:
    """Find the video files in a folder and its subfolders by their suffixes.

    Files and folders whose names begin with a dot are skipped.

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
    videos: list[Path] = []
    others: list[Path] = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            (videos if path.suffix.lower() in SUFFIXES else others).append(path)
    return videos, others
