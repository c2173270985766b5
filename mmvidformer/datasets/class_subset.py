"""Some classes of a data set of videos, such as Something-Something's 41 of early recognition."""

import logging
from collections.abc import Iterable
from pathlib import Path

from mmaction.datasets import VideoDataset
from mmengine.logging import print_log

from mmvidformer.registry import DATASETS


@DATASETS.register_module()
class ClassSubsetDataset(VideoDataset):
    """A ``VideoDataset`` limited to the classes that a file names, numbered anew.

    HORST's early recognition uses 41 of Something-Something V2's 174 classes, with 56769 clips for
    training and 7503 for validation, after Wang et al. 2019. No source that we know of lists them,
    so the user gives the list; with the counts expected, a list that cannot be the paper's is told
    by a warning, and used all the same.

    Args:
        class_file: One class a line: its number in the annotation file, or its name if
            ``label_map`` is given. The class named n-th, from 0, gets the label n. Empty lines are
            passed over.
        label_map: One name a line, that of class 0 first, as MMAction2's
            ``tools/data/sthv2/label_map.txt``.
        expected_classes: Number of classes that the file should have; None for any.
        expected_clips: Number of clips that should be left; None for any.
        **kwargs: Arguments of ``VideoDataset``.

    Raises:
        ValueError: If the file has no class, names a class twice, or one that ``label_map`` or the
            annotation file does not have; the message gives file, line and value.
    """

    def __init__(
        self,
        *args,
        class_file: str,
        label_map: str | None = None,
        expected_classes: int | None = None,
        expected_clips: int | None = None,
        **kwargs,
    ) -> None:
        self.class_file = class_file
        self.label_map = label_map
        self.expected_classes = expected_classes
        self.expected_clips = expected_clips
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file, keep the videos of the classes, and give them new labels."""
        labels = new_labels(self.class_file, self.label_map)
        videos = super().load_data_list()
        check_present(labels, (v["label"] for v in videos), self.class_file, self.ann_file)
        kept = [
            {**video, "label": labels[video["label"]]}
            for video in videos
            if video["label"] in labels
        ]
        self._compare(f"{self.class_file} names", len(labels), self.expected_classes, "classes")
        self._compare(f"{self.ann_file} has", len(kept), self.expected_clips, "clips of them")
        return kept

    def _compare(self, what: str, found: int, expected: int | None, unit: str) -> None:
        if expected not in (None, found):
            print_log(
                f"{what} {found} {unit}, the published split has {expected}: results cannot be "
                "compared with published ones",
                logger="current",
                level=logging.WARNING,
            )


def new_labels(class_file: str, label_map: str | None = None) -> dict[int, int]:
    """Read which classes are kept.

    Args:
        class_file: As ``ClassSubsetDataset`` takes it.
        label_map: As ``ClassSubsetDataset`` takes it.

    Returns:
        New label of each class that is kept.

    Raises:
        ValueError: If the file has no class, names one twice, or one that ``label_map`` lacks.
    """
    names = None
    if label_map is not None:
        lines = Path(label_map).read_text(encoding="utf-8").splitlines()
        names = {name.strip(): number for number, name in enumerate(lines)}
    labels: dict[int, int] = {}
    lines = Path(class_file).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line:
            continue
        where = f"{class_file}, line {number}"
        if line.isdigit():
            old = int(line)
        elif names is None:
            raise ValueError(f"{where}: {line!r} is no number; for names, give label_map")
        elif line not in names:
            raise ValueError(f"{where}: {line!r} is not in {label_map}")
        else:
            old = names[line]
        if old in labels:
            raise ValueError(f"{where}: class {line!r} for the second time")
        labels[old] = len(labels)
    if not labels:
        raise ValueError(f"{class_file} names no class")
    return labels


def check_present(
    kept: Iterable[int], found: Iterable[int], class_file: str, ann_file: str
) -> None:
    """Check that each class that is kept has a video.

    Args:
        kept: Classes of ``class_file``.
        found: Classes of the videos of ``ann_file``.
        class_file: For the message.
        ann_file: For the message.

    Raises:
        ValueError: If a class has none.
    """
    absent = set(kept) - set(found)
    if absent:
        raise ValueError(
            f"{ann_file} has no video of class {sorted(absent)}, which {class_file} names; do the "
            "numbers of both mean the same?"
        )
