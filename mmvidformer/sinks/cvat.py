"""CVAT's XML 1.1 of a video, which CVAT imports into a task."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO
from xml.sax.saxutils import escape, quoteattr

from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.videos import SinkBox, SinkVideo, VideoSink, list_labels, list_runs
from mmvidformer.storage.atomic import open_rows
from mmvidformer.storage.names import spell
from mmvidformer.tasks.prediction import Prediction

WHOLE = (0.0, 0.0, 1.0, 1.0)
EDGES = ("xtl", "ytl", "xbr", "ybr")


class Cvat(VideoSink):
    """A track for each box, segment or label of a video; CVAT has no others over time.

    A segment is a track of the whole frame. The file is of one video, ``NAME.xml``; a name without
    a suffix is a folder of such files, by the names of the videos.

    """

    suffix = ".xml"

    def __init__(self, target: Path, options: SinkOptions) -> None:
        super().__init__()
        self.target, self._force = target, options.force
        self._of_video = ExitStack()
        self._file: TextIO
        self._count = 0

    def begin_video(self, video: SinkVideo, prediction: Prediction | None) -> None:
        """Open the file of a video, and write what it is about."""
        file, name = self.file_of(self.target, video), escape(spell(Path(video.path).name))
        self._file = self._of_video.enter_context(open_rows(file, self._force))
        self._count = 0
        count = len(video.frames)
        names = prediction.names if prediction is not None else {}
        labels = [label for labels in names.values() for label in labels]
        lines = [
            '<?xml version="1.0" encoding="utf-8"?>',
            "<annotations>",
            "  <version>1.1</version>",
            "  <meta>",
            "    <task>",
            f"      <name>{name}</name>",
            f"      <size>{count}</size>",
            "      <mode>interpolation</mode>",
            "      <start_frame>0</start_frame>",
            f"      <stop_frame>{count - 1}</stop_frame>",
            "      <labels>",
            *(f"        <label><name>{escape(label)}</name></label>" for label in labels),
            "      </labels>",
            "      <original_size>",
            f"        <width>{video.width}</width>",
            f"        <height>{video.height}</height>",
            "      </original_size>",
            f"      <source>{name}</source>",
            "    </task>",
            "  </meta>",
        ]
        self._file.write("\n".join(lines) + "\n")

    def write_label(self, video: SinkVideo, prediction: Prediction) -> None:
        """Write a track of the whole video for each of its classes."""
        self._write_spans(video, prediction, 0, len(video.frames))

    def write_segment(self, video: SinkVideo, segment: Prediction) -> None:
        """Write a track of the whole frame; one of no length is a single frame."""
        start, end = segment.span
        numbers = video.frames.frame_times.numbers
        first = min(round(float(numbers(start))), len(video.frames) - 1)
        self._write_spans(video, segment, first, max(round(float(numbers(end))), first + 1))

    def end_video(self, video: SinkVideo) -> None:
        """Write the tracks of boxes, and the end of the file."""
        for run in list_runs(video.boxes):
            for label in run[0].labels:
                self._write_track(video, label, run, run[-1].frame + 1)
        self._file.write("</annotations>\n")
        self._of_video.close()

    def close(self, *error: Any) -> None:
        """End the last video."""
        with self._of_video:
            super().close(*error)

    def _write_spans(
        self, video: SinkVideo, prediction: Prediction, first: int, after: int
    ) -> None:
        for output in prediction.scores:
            for label, score in list_labels(prediction, output):
                box = SinkBox(first, WHOLE, (label,), score, "")
                self._write_track(video, label, [box], after)

    def _write_track(self, video: SinkVideo, label: str, boxes: list[SinkBox], after: int) -> None:
        """Write a track with its keyframes, which is not seen from the frame ``after`` on."""
        number = self._count
        self._count += 1
        lines = [f'  <track id="{number}" label={quoteattr(label)} source="auto">']
        lines += [_keyframe(box.frame, box.corners, video) for box in boxes]
        if after < len(video.frames):  # a video ends without
            lines.append(_keyframe(after, boxes[-1].corners, video, is_outside=True))
        self._file.write("\n".join([*lines, "  </track>"]) + "\n")


def _keyframe(
    frame: int, corners: tuple[float, ...], video: SinkVideo, is_outside: bool = False
) -> str:
    scales = (video.width, video.height, video.width, video.height)
    pixels = (share * scale for share, scale in zip(corners, scales, strict=True))
    edges = [f'{edge}="{pixel:.2f}"' for edge, pixel in zip(EDGES, pixels, strict=True)]
    place = f'frame="{frame}" keyframe="1" outside="{int(is_outside)}" occluded="0"'
    return f'    <box {place} {" ".join(edges)} z_order="0"/>'
