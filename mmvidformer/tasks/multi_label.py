"""Multi-label classification: any number of classes a video."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmvidformer.datasets.csv_rows import read_rows
from mmvidformer.datasets.own_videos import CLASSES, SPLITS, VideoLists, check_names, read_lists
from mmvidformer.tasks.base import write_lines
from mmvidformer.tasks.classification import Classification, all_lowest
from mmvidformer.tasks.reading import Annotations, Row, unknown_class


class MultiLabel(Classification):
    """Any number of classes a video."""

    name, least_classes = "labels", 1
    has_probes = False
    loss = "BCELossWithLogits"
    head = "mmvidformer.MultiLabelHead"
    heads_by_classifier = {"AttentiveHead": "mmvidformer.MultiLabelAttentiveHead"}
    metric, best_metric = "AccMetric", "acc/mean_average_precision"
    has_one_class = False
    activation, threshold = "sigmoid", 0.5

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Whatever fits no other task."""
        return True

    def read(
        self, file: str | Path, classes: Sequence[str] = (), folder: Path | None = None
    ) -> Annotations:
        """Read a csv file with the columns ``video`` and ``label``.

        A video has one row for each label, or names that are separated by semicolons.
        """
        annotations, known = Annotations(Path(file)), dict.fromkeys(classes)

        def read_row(row: Row, place: str) -> list[str]:
            names = [name.strip() for name in (row["label"] or "").split(";")]
            names = [name for name in names if name]
            try:
                check_names(names)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
            for name in names:
                if known and name not in known:
                    raise ValueError(unknown_class(name, known, place))
            return names

        annotations.add_rows(read_rows(file, "video", "label"), read_row)
        return annotations

    def write_lists(
        self, annotations: Annotations, splits: Mapping[str, str], root: Path, paths: Mapping
    ) -> None:
        """Write lists for MMAction2's ``VideoDataset``: a path and the numbers of its classes."""
        labels = {video: set(names) for video, names in annotations.videos.items()}
        classes = sorted(set().union(*labels.values()))
        numbers = {name: number for number, name in enumerate(classes)}
        texts = {video: path.as_posix() for video, path in paths.items()}
        check_names([*texts.values()])
        delimiter = "\t" if any(" " in text for text in texts.values()) else " "
        root.mkdir(parents=True, exist_ok=True)
        for split in SPLITS:
            lines = []
            for video, text in texts.items():
                if splits[video] == split:
                    of_video = sorted(numbers[name] for name in labels[video])
                    lines.append(delimiter.join([text, *map(str, of_video)]))
            write_lines(root / f"{split}.txt", lines)
        write_lines(root / CLASSES, classes)

    def read_lists(self, folder: str | Path) -> VideoLists:
        """Read lists of any number of classes a line."""
        return read_lists(folder, multi_class=True)

    @staticmethod
    def worst(sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return a sample with the lowest score for all classes."""
        return {**sample, "pred_score": all_lowest(sample["pred_score"])}

    def chance(self, lists: VideoLists, split: str) -> float:
        """Return the mean average precision of equal scores: the mean share of the classes."""
        sizes = self.class_sizes(lists, split)
        return float(sizes[sizes > 0].mean() / lists.counts[split]) if sizes.any() else 0.0

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Let MMAction2's ``VideoDataset`` read several classes a line."""
        return dict(multi_class=True, num_classes=len(lists.classes))

    def metric_config(self, lists: VideoLists, ann_file: str) -> dict[str, Any]:
        """Return MMAction2's metric."""
        return dict(type=self.metric, metric_list=("mean_average_precision",))
