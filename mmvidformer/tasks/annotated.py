"""What a task has annotated: reading annotations, and writing and reading lists of videos."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmvidformer.data.list_folders import (
    CLASSES,
    DURATIONS,
    ListFacts,
    SplitList,
    VideoLists,
    read_durations,
)
from mmvidformer.data.lists import DEFAULT_DELIMITER, read_video_list
from mmvidformer.data.splits import SPLITS
from mmvidformer.data.tables import Table, read_table
from mmvidformer.data.text import read_text
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.files import write_file
from mmvidformer.tasks.reading import Annotations
from mmvidformer.video.errors import with_suffix


class Annotated:
    """Annotations go from ``read`` by ``write_lists`` to lists, which ``read_lists`` reads.

    Attributes:
        name: Name of the task on the command line.
        suffix: Suffix of the lists of the splits.
        nouns: What it takes of exports: boxes, moments, segments, labels, and '' for videos alone.
        has_classes_file: Whether ``classes.txt`` may lie beside annotations, which number its
            lines.
        has_seconds: Whether annotations state seconds of a video.
        least_classes: Least number of classes, or of values.
        has_classes: Whether the names in the lists are classes, in ``classes.txt``, or values.
        size_unit: What ``class_sizes`` counts.
        sample_unit: What ``count_samples`` counts.
    """

    name: str
    suffix = "csv"
    nouns: tuple[str, ...] = ()
    has_classes_file = False
    has_seconds = False
    least_classes = 1
    has_classes = True
    size_unit = sample_unit = "videos"

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Whether a csv file with these columns annotates this task."""
        return False

    def read(self, table: Table, classes: Sequence[str] = ()) -> Annotations:
        """Read annotations, or the list of a split. What is wrong is in ``faults``.

        Args:
            table: The rows of a file.
            classes: Names of the classes; empty if they are not known yet.

        Raises:
            UserError: If the table has other columns.
        """
        raise UserError(f"the task {self.name} reads no such file as {table.file}")

    def video_paths(self, annotations: Annotations, folder: Path) -> dict[str, Path]:
        """Return where the annotated videos should be, which ``folder`` contains."""
        return {video: Path(with_suffix(str(folder / video))) for video in annotations.videos}

    def last_second(self, annotation: Any) -> float:
        """Return the second of a video that an annotation needs, if the task has seconds."""
        raise NotImplementedError

    def write_lists(
        self, annotations: Annotations, splits: Mapping[str, str], root: Path, paths: Mapping
    ) -> None:
        """Write the list of each split, and the names of the classes.

        Args:
            annotations: What ``read`` read.
            splits: Split of each video.
            root: Folder to write to.
            paths: Path of each video, relative to the folder of the lists if it is below.
        """
        columns = self.list_columns(annotations)
        for split, rows in annotations.rows_by_split(splits).items():
            lines = [columns]
            for row in rows:
                path = paths[row["video"]].as_posix()
                lines.append([path, *(row[name] for name in columns[1:])])
            write_csv(self.list_file(root, split), lines)
        classes = self.classes_in(annotations)
        if classes is not None:
            write_lines(root / CLASSES, classes)

    def classes_of(self, annotations: Annotations) -> dict[str, list[Any]]:
        """Return the classes of each video, of which splits and folds get equal shares."""
        classes: dict[str, list[Any]] = {}
        for video, of_video in annotations.videos.items():
            names = [
                said if isinstance(said, str) else getattr(said, "label", None) for said in of_video
            ]
            classes[video] = [*dict.fromkeys(name for name in names if name is not None)]
        return classes

    def list_columns(self, annotations: Annotations) -> Sequence[str]:
        """Return the columns of the lists, of which the first is the video."""
        raise NotImplementedError

    def classes_in(self, annotations: Annotations) -> Sequence[str] | None:
        """Return the names of the classes that annotations have; None if they are no classes."""
        raise NotImplementedError

    def read_lists(self, folder: str | Path) -> VideoLists:
        """Read the lists that ``write_lists`` writes.

        Raises:
            FileNotFoundError: If a file is missing.
            UserError: If a line is wrong; names file and line.
        """
        root = Path(folder).resolve()
        if not root.is_dir():
            raise MissingFile(f"folder {folder} does not exist")
        for file in [self.list_file(root, "train"), *[root / CLASSES] * self.has_classes]:
            if not file.is_file():
                raise MissingFile(f"{file} does not exist; mmvidformer data list writes it")
        names = tuple(read_text(root / CLASSES).splitlines()) if self.has_classes else ()
        counts = dict.fromkeys(SPLITS, 0)
        facts = dict.fromkeys(SPLITS, ListFacts((0,) * len(self.learned_classes(names))))
        delimiters = set()
        durations = {} if self.has_seconds else read_durations(root / DURATIONS)
        for split in SPLITS:
            file = self.list_file(root, split)
            if not file.is_file():
                continue
            split_list = self.read_list(file, names)
            counts[split], facts[split], values, delimiter = split_list
            if durations:
                videos = (line.path for line in read_video_list(file).lines)
                seconds = tuple(durations.get(video, 0.0) for video in videos)
                facts[split] = facts[split]._replace(durations=seconds)
            if not self.has_classes:
                names = names or values
                if counts[split] and values != names:
                    raise UserError(f"{file} must have the columns of train.csv, got {values}")
            delimiters |= {delimiter} if counts[split] else set()
        # If they differ, each dataset finds its own.
        delimiter = delimiters.pop() if len(delimiters) == 1 else DEFAULT_DELIMITER
        return VideoLists(root, self.learned_classes(names), counts, delimiter, facts)

    def read_list(self, file: Path, classes: tuple[str, ...]) -> SplitList:
        """Read the list of a split; raises as ``read_lists``.

        Args:
            file: The list.
            classes: The names in ``classes.txt``.
        """
        annotations = self.read(read_table(file), classes).check()
        facts = self.list_facts(annotations, self.learned_classes(classes))
        return SplitList(self.count_samples(annotations), facts, annotations.names)

    def list_file(self, root: Path, split: str) -> Path:
        """Return the list of a split, in a folder of lists."""
        return root / f"{split}.{self.suffix}"

    def say_counts(self, lists: VideoLists) -> str:
        """Return what lists have, such as ``'3 classes; videos: 8 train, 7 val, 0 test'``."""
        counts = ", ".join(f"{count} {split}" for split, count in lists.counts.items())
        unit = "classes" if self.has_classes else "values"
        return f"{len(lists.classes)} {unit}; videos: {counts}"

    def learned_classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the classes that a model learns, of those in ``classes.txt``."""
        return names

    def list_facts(self, annotations: Annotations, classes: Sequence[str]) -> ListFacts:
        """Return what training asks of a list."""
        if not self.has_seconds:
            return ListFacts()
        videos = annotations.videos.values()
        ends = tuple(max(map(self.last_second, items), default=0.0) for items in videos)
        return ListFacts(ends=ends)

    def count_samples(self, annotations: Annotations) -> int:
        """Return the number of samples of a list."""
        return len(annotations.videos)

    def class_sizes(self, lists: VideoLists, split: str = "train") -> np.ndarray:
        """Return the size of each class in the list of a split (classes,)."""
        sizes = lists.facts[split].sizes
        if not sizes:
            raise UserError(f"the classes of the task {self.name} have no sizes")
        return np.array(sizes)


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write lines of text, whole or not at all; its folder is created."""
    write_file(file, "".join(f"{line}\n" for line in lines).encode())


def write_csv(file: Path, rows: Iterable[Sequence]) -> None:
    """Write rows of a csv file, whole or not at all; its folder is created."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    write_file(file, text.getvalue().encode())
