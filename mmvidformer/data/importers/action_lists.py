"""The official lists of UCF101, and those of HMDB51 and JHMDB: a folder of them.

- UCF101: ``trainlist01.txt``, ``testlist01.txt`` and so on, of lines ``CLASS/VIDEO``, perhaps with
  a number. No video is in two test lists: the number of its test list is its ``fold``. If there is
  one test list alone, the lists are the splits. Videos that were cut from one are a ``group``.
- HMDB51: ``CLASS_test_split1.txt`` and so on, of lines ``VIDEO NUMBER``, where 1 is training, 2
  test and 0 neither. Test lists overlap, so they are no folds: ``--only official=1`` takes one.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from mmvidformer.data.importers.export import Export
from mmvidformer.data.text import read_text

OF_UCF101 = re.compile(r"(train|test)list0*([0-9]+)\.txt")
OF_HMDB51 = re.compile(r"(.+)_test_split([0-9]+)\.txt")
SPLIT_OF_NUMBER = {"1": "train", "2": "test"}
Row = tuple[dict[str, str], str]


def recognize(export: Export) -> bool:
    """Whether a folder has such a list, by its name."""
    return any(_list_files(export.path, pattern) for pattern in (OF_UCF101, OF_HMDB51))


def read(export: Export) -> Iterator[Row]:
    """Yield a row of each video; of HMDB51, one of each video and number of the lists."""
    yield from _read_ucf101(_list_files(export.path, OF_UCF101))
    for file, (label, number) in _list_files(export.path, OF_HMDB51).items():
        for words, place in _read_lines(file):
            split = SPLIT_OF_NUMBER.get(words[-1])
            if split:
                yield dict(video=words[0], label=label, split=split, official=number), place


def _read_ucf101(files: dict[Path, tuple[str, ...]]) -> Iterator[Row]:
    has_folds = [split for split, _ in files.values()].count("test") > 1
    videos: dict[str, Row] = {}
    for file, (split, number) in files.items():  # test lists come first
        fold = number if split == "test" else ""
        parts = dict(fold=fold) if has_folds else dict(split=split)
        for (video, *_), place in _read_lines(file):
            label, _, name = video.rpartition("/")
            row = dict(video=video, label=label, group=re.sub(r"_c[0-9]+(\.\w+)?$", "", name))
            videos.setdefault(video, (row | parts, place))
    yield from videos.values()


def _read_lines(file: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each line that is not empty, and its place."""
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        if words := line.split():
            yield words, f"{file}, line {number}"


def _list_files(folder: Path, pattern: re.Pattern) -> dict[Path, tuple[str, ...]]:
    """Return the files of a folder whose names match, in order, and the groups of the match."""
    matches = {path: pattern.fullmatch(path.name) for path in sorted(folder.glob("*.txt"))}
    return {path: match.groups() for path, match in matches.items() if match}
