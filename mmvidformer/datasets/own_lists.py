"""Lists of one's own videos in MMAction2's format: written, and read back with checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.datasets.own_videos import SPLITS, LabelledVideo

CLASSES = "classes.txt"
FILES = (*(f"{split}.txt" for split in SPLITS), CLASSES)


@dataclass(frozen=True)
class VideoLists:
    """What a folder of lists holds.

    Attributes:
        root: The folder, absolute.
        classes: Names of the classes, by number.
        counts: Videos by split.
        delimiter: What stands between path and class: a blank, or a tab where paths have blanks.
        prefix: The folder that the paths are below; empty if they are absolute.
    """

    root: Path
    classes: tuple[str, ...]
    counts: dict[str, int]
    delimiter: str
    prefix: str


def write_lists(
    videos: Sequence[LabelledVideo], folder: str | Path, force: bool = False
) -> VideoLists:
    """Write ``train.txt``, ``val.txt``, ``test.txt`` and ``classes.txt``.

    Lines are path and number of the class, with a blank between; if a path has a blank, with a tab,
    which MMAction2's ``VideoDataset`` takes as ``delimiter``. Paths are relative to the folder if
    all videos are below it, else absolute.

    Args:
        videos: With splits.
        folder: Where to write; made if it is not there.
        force: Write over lists that are there.

    Raises:
        FileExistsError: If there are lists, and not ``force``.
        ValueError: If a path or class cannot be written into such a list, or no video is for
            training.
    """
    root = Path(folder).resolve()
    found = [name for name in FILES if (root / name).exists()]
    if found and not force:
        raise FileExistsError(f"{root} has {', '.join(found)} already; --force writes over them")
    paths = _paths_in_lists([video.path.absolute() for video in videos], root)
    delimiter = "\t" if any(" " in path for path in paths) else " "
    classes = sorted({video.label for video in videos})
    for name in classes:
        if name.splitlines() != [name]:
            raise ValueError(f"the name of a class is one line, got {name!r}")
    numbers = {name: number for number, name in enumerate(classes)}
    lines: dict[str, list[str]] = {split: [] for split in SPLITS}
    for video, path in zip(videos, paths, strict=True):
        lines[video.split].append(f"{path}{delimiter}{numbers[video.label]}\n")
    if not lines["train"]:
        raise ValueError("no video is for training")
    root.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        (root / f"{split}.txt").write_text("".join(lines[split]), encoding="utf-8")
    (root / CLASSES).write_text("".join(f"{name}\n" for name in classes), encoding="utf-8")
    return read_lists(root)


def _paths_in_lists(paths: Sequence[Path], root: Path) -> list[str]:
    if all(path.is_relative_to(root) for path in paths):
        paths = [path.relative_to(root) for path in paths]
    texts = [path.as_posix() for path in paths]
    for text in texts:
        if text != text.strip() or len(text.splitlines()) != 1 or "\t" in text:
            raise ValueError(
                f"{text!r} begins or ends with a blank, or has a tab or line break, which "
                "MMAction2's lists cannot hold; rename it"
            )
    return texts


def read_lists(folder: str | Path) -> VideoLists:
    """Read lists as ``write_lists`` writes them.

    Raises:
        FileNotFoundError: If ``train.txt`` or ``classes.txt`` is missing.
        ValueError: If a line is not a path and the number of a class; names file and line.
    """
    root = Path(folder).resolve()
    for name in ("train.txt", CLASSES):
        if not (root / name).is_file():
            raise FileNotFoundError(
                f"there is no {root / name}; tools/data/make_annotations.py writes the lists"
            )
    classes = tuple((root / CLASSES).read_text(encoding="utf-8").splitlines())
    texts = {}
    for split in SPLITS:
        file = root / f"{split}.txt"
        texts[split] = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    delimiter = "\t" if any("\t" in line for lines in texts.values() for line in lines) else " "
    absolute = set()
    for split, lines in texts.items():
        for number, line in enumerate(lines, start=1):
            absolute.add(Path(line).is_absolute())
            parts = line.strip().split(delimiter)
            label = parts[-1]
            if len(parts) != 2 or not label.isdigit() or int(label) >= len(classes):
                raise ValueError(
                    f"{root / split}.txt, line {number}: expected a path, "
                    f"{'a tab' if delimiter == chr(9) else 'a blank'} and a class from 0 to "
                    f"{len(classes) - 1}, got {line!r}"
                )
    if len(absolute) > 1:
        raise ValueError(f"the lists of {root} have absolute paths and relative ones: use one kind")
    counts = {split: len(lines) for split, lines in texts.items()}
    return VideoLists(root, classes, counts, delimiter, "" if True in absolute else str(root))
