"""ELAN's .eaf files, which somebody corrects there."""

import os
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.videos import PARTS_OF_TIME, FoundSegment, SinkVideo, VideoSink
from mmvidformer.storage.atomic import open_rows
from mmvidformer.storage.names import name_from
from mmvidformer.tasks.prediction import Prediction

SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
TYPE = "default-lt"
MIME_TYPES = {".mp4": "video/mp4", ".mpg": "video/mpeg", ".mpeg": "video/mpeg"}
MIME_TYPES |= {".mov": "video/quicktime", ".avi": "video/x-msvideo"}


class Elan(VideoSink):
    """A file for each video, with a tier for each class: annotations of a tier cannot overlap.

    Where segments of one class overlap, they are one annotation. A moment lasts for a frame. The
    target is the file of one video, or a folder, which gets ``NAME.eaf`` for each.
    """

    suffix = ".eaf"
    parts, needs_parts = PARTS_OF_TIME, True

    def __init__(self, target: Path, options: SinkOptions) -> None:
        super().__init__()
        self.target, self._force = target, options.force
        self._names: tuple[str, ...] = ()

    def begin_video(self, video: SinkVideo, prediction: Prediction | None) -> None:
        """Note the classes."""
        names_of = prediction.names if prediction is not None else {}
        self._names = tuple(name for names in names_of.values() for name in names)

    def end_video(self, video: SinkVideo) -> None:
        """Write the file of a video."""
        file = self.file_of(self.target, video)
        root = self._document(file, video)
        indent(root, "    ")
        with open_rows(file, self._force) as text:
            text.write('<?xml version="1.0" encoding="UTF-8"?>\n')
            text.write(tostring(root, encoding="unicode") + "\n")

    def _document(self, file: Path, video: SinkVideo) -> Element:
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        root = Element("ANNOTATION_DOCUMENT", AUTHOR="", DATE=date, FORMAT="3.0", VERSION="3.0")
        root.set("xmlns:xsi", INSTANCE)
        root.set("xsi:noNamespaceSchemaLocation", SCHEMA)
        header = SubElement(root, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
        place = Path(os.path.abspath(video.path))
        relative = quote(os.fsencode(name_from(file.parent, place)))
        mime = MIME_TYPES.get(place.suffix.lower(), "video/unknown")
        address = {"MEDIA_URL": place.as_uri(), "MIME_TYPE": mime}
        SubElement(header, "MEDIA_DESCRIPTOR", address, RELATIVE_MEDIA_URL=f"./{relative}")
        order = SubElement(root, "TIME_ORDER")
        segments = FoundSegment.merge(video.segments)
        _write_slots(order, segments, video)
        for name in self._names:
            tier = SubElement(root, "TIER", LINGUISTIC_TYPE_REF=TYPE, TIER_ID=name)
            for number, segment in enumerate(segments, start=1):
                if segment.label == name:
                    _write_annotation(tier, number, name)
        SubElement(
            root,
            "LINGUISTIC_TYPE",
            GRAPHIC_REFERENCES="false",
            LINGUISTIC_TYPE_ID=TYPE,
            TIME_ALIGNABLE="true",
        )
        return root


def _write_slots(order: Element, segments: list[FoundSegment], video: SinkVideo) -> None:
    """Write the times of the ends, in order; a segment lasts at least for its first frame."""
    times = {}
    for number, (_, start, end, _) in enumerate(segments, start=1):
        frame = video.frames.at(start)
        _, frame_end = video.frames.frame_times.span(frame, frame)
        first, last = round(1000 * start), round(1000 * max(end, float(frame_end)))
        times[f"ts{2 * number - 1}"] = first
        times[f"ts{2 * number}"] = max(last, first + 1)
    for slot, milliseconds in sorted(times.items(), key=lambda item: item[1]):
        SubElement(order, "TIME_SLOT", TIME_SLOT_ID=slot, TIME_VALUE=str(milliseconds))


def _write_annotation(tier: Element, number: int, label: str) -> None:
    annotation = SubElement(tier, "ANNOTATION")
    slots = {f"TIME_SLOT_REF{end}": f"ts{2 * number - 2 + end}" for end in (1, 2)}
    aligned = SubElement(
        annotation, "ALIGNABLE_ANNOTATION", {"ANNOTATION_ID": f"a{number}"} | slots
    )
    SubElement(aligned, "ANNOTATION_VALUE").text = label
