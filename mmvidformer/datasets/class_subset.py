"""Some classes of a dataset of videos, such as Something-Something's 41 of early recognition."""

import logging
from pathlib import Path

from mmaction.datasets import VideoDataset
from mmengine.logging import print_log

from mmvidformer.registry import DATASETS


@DATASETS.register_module()
class ClassSubsetDataset(VideoDataset):
    """A ``VideoDataset`` limited to the classes listed in a file, with new labels.

    HORST's early recognition uses 41 of Something-Something V2's 174 classes, with 56769 clips for
    training and 7503 for validation, after Wang et al. 2019. No source that we know of lists them,
    so that users have to provide the list. Other numbers than the expected ones give a warning.

    Class names in ``metainfo`` are those of the whole dataset.

    Args:
        class_file: A class per line: its number in the annotation file, or its name if
            ``label_map`` is given. The n-th class, from 0, gets the label n. Empty lines are
            ignored.
        label_map: A name per line, in the order of the classes, such as MMAction2's
            ``tools/data/sthv2/label_map.txt``.
        expected_classes: Expected number of classes. None for any.
        expected_clips: Expected number of clips. None for any.
        **kwargs: Arguments of ``VideoDataset``.

    Raises:
        ValueError: If the file has no class, lists one twice, or lists one that ``label_map`` or
            the annotation file lacks; names file, line and value.
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
        self.expected = {"classes": expected_classes, "clips": expected_clips}
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file, keep the videos of the classes, and relabel them."""
        labels = self._new_labels()
        videos = super().load_data_list()
        absent = set(labels) - {video["label"] for video in videos}
        if absent:
            raise ValueError(
                f"{self.ann_file} has no videos of the classes {sorted(absent)} of "
                f"{self.class_file}; do the numbers in both files mean the same?"
            )
        names = self._metainfo.get("classes")
        if isinstance(names, list) and len(names) > max(labels):
            self._metainfo["classes"] = [names[old] for old in labels]
        kept = [{**v, "label": labels[v["label"]]} for v in videos if v["label"] in labels]
        for unit, found in (("classes", len(labels)), ("clips", len(kept))):
            if self.expected[unit] not in (None, found):
                print_log(
                    f"{found} {unit} of {self.class_file} in {self.ann_file}, but the published "
                    f"split has {self.expected[unit]}: results are not comparable with it",
                    logger="current",
                    level=logging.WARNING,
                )
        return kept

    def _new_labels(self) -> dict[int, int]:
        """Read the new label of each class that is kept."""
        names = Path(self.label_map).read_text("utf-8") if self.label_map else ""
        names = [name.strip() for name in names.splitlines()]
        labels: dict[int, int] = {}
        lines = Path(self.class_file).read_text("utf-8").splitlines()
        for number, line in enumerate(map(str.strip, lines), start=1):
            if not line:
                continue
            where = f"{self.class_file}, line {number}"
            if not line.isdigit() and line not in names:
                hint = f"not in {self.label_map}" if names else "not a number; give label_map"
                raise ValueError(f"{where}: {line!r} is {hint}")
            old = int(line) if line.isdigit() else names.index(line)
            if old in labels:
                raise ValueError(f"{where}: class {line!r} is listed twice")
            labels[old] = len(labels)
        if not labels:
            raise ValueError(f"{self.class_file} lists no classes")
        return labels
