"""Outputs of predictions, a file each. Their names can be told without importing them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mmvidformer.sinks.base import Sink


class Output(NamedTuple):
    """An output of the command line: ``demo --NAME PATH`` writes with its class.

    Attributes:
        place: ``MODULE:CLASS``.
        help: What it writes.
    """

    place: str
    help: str

    def load(self) -> type[Sink]:
        """Import the class."""
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)


# A new output has a line here.
SINKS = {
    "json": Output(
        "mmvidformer.sinks.jsonl:JsonLines",
        "file of JSON lines, each written after its prediction; - is the standard output",
    ),
    "csv": Output(
        "mmvidformer.sinks.segments:SegmentsCsv",
        "csv file of segments of one class, or of values, each written when it has ended",
    ),
    "windows": Output(
        "mmvidformer.sinks.windows:WindowsCsv",
        "csv file with a row for each window, for long videos; run the same command again to "
        "continue after the last row; beside it FILE.settings.json tells what the rows depend on",
    ),
    "subtitles": Output(
        "mmvidformer.sinks.subtitles:Subtitles",
        "subtitles of one video, a line for each segment of one class: .srt or .vtt",
    ),
    "label_studio": Output(
        "mmvidformer.sinks.label_studio:LabelStudio",
        "pre-annotations for Label Studio (.json), to be corrected there and imported by data "
        "list; beside it NAME.interface.xml is the labeling interface",
    ),
    "cvat": Output(
        "mmvidformer.sinks.cvat:Cvat",
        "pre-annotations for CVAT (CVAT 1.1, .xml, of one video), to be corrected there and "
        "imported by data list; a name without a suffix is a folder, with a file for each video",
    ),
    "coco": Output(
        "mmvidformer.sinks.coco:Coco",
        "boxes in COCO's format (.json): pictures are the frames, with video and number",
    ),
    "boris": Output(
        "mmvidformer.sinks.boris:Boris",
        "project of BORIS (.boris): segments and moments, to be corrected there",
    ),
    "elan": Output(
        "mmvidformer.sinks.elan:Elan",
        "files of ELAN, to be corrected there: .eaf of one video, or a folder of them",
    ),
    "timeline": Output(
        "mmvidformer.sinks.timeline:Timeline",
        "picture of the classes over time; a name without a suffix is a folder of them",
    ),
    "out": Output(
        "mmvidformer.sinks.film:Film",
        "annotated video (.mp4) with its sound; a name without a suffix is a folder",
    ),
}
