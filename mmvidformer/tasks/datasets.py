"""Datasets of videos with spans, boxes or values, for MMAction2's runner."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from os.path import join

import numpy as np
import torch
from mmaction.datasets import VideoDataset

from mmvidformer.catalog import DATASETS
from mmvidformer.data.folders import find_named
from mmvidformer.data.importers.activitynet import read_subset
from mmvidformer.data.tables import read_table
from mmvidformer.errors import MissingFile
from mmvidformer.tasks.annotations import BACKGROUND, parse_spans
from mmvidformer.tasks.boxes import group_boxes, parse_boxes
from mmvidformer.tasks.regression import parse_values
from mmvidformer.tasks.span_samples import NO_LABEL, SpanSamples


@DATASETS.add
class SpanDataset(VideoDataset):
    """Videos with classes of spans of time: ``video``, ``start``, ``end`` and ``label`` in a csv.

    A sample has its spans (n, 3), start and end in seconds and class, for ``LabelFrames`` and
    metrics. ``metainfo`` holds the classes, a list or a file of their names. The class of other
    time is that with the name ``'background'``, if there is one; else it does not count.

    Args:
        *args: Arguments of MMAction2's ``VideoDataset``.
        overlap: Whether spans of a video may overlap.
        moments: Whether spans may have no length.
        suffix: What is added to the names of the files: ``'.npz'`` for saved features.
        subset: Of a JSON in ActivityNet's format, as published with features: its subset.
        **kwargs: Arguments of MMAction2's ``VideoDataset``.

    Raises:
        UserError: As ``read_spans``, and if a label is no class.
    """

    def __init__(
        self,
        *args: object,
        overlap: bool = False,
        moments: bool = False,
        suffix: str = "",
        subset: str | None = None,
        **kwargs: object,
    ) -> None:
        self.overlap, self.moments, self.suffix = overlap, moments, suffix
        self.subset = subset
        super().__init__(*args, **{**kwargs, "serialize_data": False})

    def load_data_list(self) -> SpanSamples:
        """Read the annotation file."""
        folder, classes = self.data_prefix["video"] or "", list(self.metainfo["classes"])
        numbers = {name: number for number, name in enumerate(classes)}
        if self.subset is None:
            table = read_table(self.ann_file)
        else:
            table = read_subset(self.ann_file, self.subset)
        annotations = parse_spans(table, self.overlap, classes, self.moments).check_rows()
        background = numbers.get(BACKGROUND, NO_LABEL)
        return SpanSamples(annotations.videos, numbers, folder, self.suffix, background)


@DATASETS.add
class BoxDataset(VideoDataset):
    """Moments of video files with boxes, in the format of AVA's csv files (``read_boxes``).

    MMAction2's ``AVADataset`` reads the same files with folders of frames. A video is the file of
    its name, with any suffix, in the folder or below. Arguments are those of ``VideoDataset``;
    ``metainfo`` has the classes.

    Raises:
        FileNotFoundError: If a video is missing.
        UserError: As ``read_boxes``, or if two files have the name of a video.
    """

    def load_data_list(self) -> list[dict]:
        """Read the annotation file."""
        names = self.metainfo["classes"]
        annotations = parse_boxes(read_table(self.ann_file), names).check_rows()
        paths = find_named(self.data_prefix["video"] or ".", annotations.videos)
        samples = []
        for (video, time), boxes in group_boxes(annotations).items():
            if video not in paths:
                raise MissingFile(f"{self.ann_file}: there is no file of video {video!r}")
            labels = torch.zeros(len(boxes), len(names))
            for number, classes in enumerate(boxes.values()):
                labels[number, [label - 1 for label in classes]] = 1
            sample = dict(
                filename=str(paths[video]),
                video_id=video,
                timestamp=time,
                gt_bboxes=np.array(list(boxes), np.float32),
                gt_labels=labels,
            )
            samples.append(sample)
        return samples


@DATASETS.add
class ValueDataset(VideoDataset):
    """Videos with numbers: a csv file with the column ``video`` and a column for each value.

    ``gt_label`` of a sample holds the values. Arguments are those of MMAction2's ``VideoDataset``.

    Raises:
        UserError: If something is wrong in the file (``parse_values``); names file and line.
    """

    def load_data_list(self) -> list[dict]:
        """Read the annotation file."""
        folder = self.data_prefix["video"] or ""
        samples = []
        for video, (numbers,) in (
            parse_values(read_table(self.ann_file)).check_rows().videos.items()
        ):
            label = torch.tensor(numbers.values)
            sample = dict(filename=join(folder, video), label=label, where=numbers.where)
            samples.append(sample)
        return samples
