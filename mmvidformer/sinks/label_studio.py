"""Label Studio's JSON of pre-annotations, which somebody corrects there."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from mmvidformer.data.sources import Source
from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.videos import SinkBox, SinkVideo, VideoSink, list_labels, list_runs
from mmvidformer.storage.names import name_from
from mmvidformer.storage.targets import Target
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.times import FrameTimes

LOCAL_FILES = "/data/local-files/?d="  # of Label Studio's storage of local files
RECTANGLES = "rectangles"  # name of the tag of boxes
VIDEO = '  <Video name="video" value="$video" frameRate="$fps"/>'


class LabelStudio(VideoSink):
    """A task for each video, with a prediction: labels, segments, boxes.

    Label Studio numbers frames from 1 at a constant rate, which ``fps`` in the data of a task
    states. Beside the file ``NAME.interface.xml`` has the labeling interface of the project. Paths
    of videos are relative to the folder of the file, which is the root of local files there; those
    elsewhere are relative to ``/``.
    """

    def __init__(self, target: Path, options: SinkOptions) -> None:
        super().__init__()
        self.target, self._version = target, str(options.settings.get("model", "mmvidformer"))
        self._file = self.open_rows(target, options)
        self._interface = self.open_rows(_interface_of(target), options)
        self._tags: dict[str, str] = {}  # of the interface, by name
        self._results: list[dict[str, Any]] = []  # of the video
        self._times = FrameTimes(0)
        self._count = 0
        self._file.write("[")

    @classmethod
    def targets(cls, target: Path, sources: Sequence[Source]) -> list[Target]:
        """Return the file, and that of the labeling interface."""
        return [*super().targets(target, sources), (str(target), _interface_of(target))]

    def begin_video(self, video: SinkVideo, prediction: Prediction | None) -> None:
        """Forget the last video."""
        self._results = []
        self._times = FrameTimes(video.frames.get_avg_fps())
        if prediction is not None and prediction.box:
            self._add_tag("Labels", "boxes", "Label", next(iter(prediction.names.values())))
            self._tags[RECTANGLES] = f'  <VideoRectangle name="{RECTANGLES}" toName="video"/>'

    def write_label(self, video: SinkVideo, prediction: Prediction) -> None:
        """Keep the classes of a video as choices."""
        for output in prediction.scores:
            classes = list_labels(prediction, output)
            several = ' choice="multiple"' if prediction.task.threshold is not None else ""
            self._add_tag("Choices", output, "Choice", prediction.names[output], several)
            value = {"choices": [label for label, _ in classes]}
            self._add(output, "choices", value, classes[0][1])

    def write_segment(self, video: SinkVideo, segment: Prediction) -> None:
        """Keep a segment of each output; one of no length is a single frame."""
        start, end = segment.span
        first = round(float(self._times.numbers(start))) + 1
        last = max(round(float(self._times.numbers(end))), first)
        for output in segment.scores:
            classes = list_labels(segment, output)
            name = "segments" if len(segment.names) == 1 else f"{output}_segments"
            self._add_tag("TimelineLabels", name, "Label", segment.names[output])
            labels = [label for label, _ in classes]
            value = {"ranges": [{"start": first, "end": last}], "timelinelabels": labels}
            self._add(name, "timelinelabels", value, classes[0][1])

    def end_video(self, video: SinkVideo) -> None:
        """Write the task of a video."""
        count = len(video.frames)
        for run in list_runs(video.boxes):
            value = {
                "framesCount": count,
                "duration": round(video.frames.duration, 6),
                "sequence": [self._keyframe(box, box is not run[-1], video) for box in run],
                "labels": [*run[0].labels],
            }
            score = sum(box.score for box in run) / len(run)
            self._add(RECTANGLES, "videorectangle", value, round(score, 6))
        prediction = {"model_version": self._version, "result": self._results}
        if self._results:
            scores = [result["score"] for result in self._results]
            prediction["score"] = round(sum(scores) / len(scores), 6)
        data = {"video": self._address(video.path), "fps": self._times.rate}
        task = {"data": data, "predictions": [prediction]}
        separator = ",\n" if self._count else "\n"
        self._count += 1
        self._file.write(separator + json.dumps(task, ensure_ascii=False))
        self._file.flush()

    def finish(self) -> None:
        """Write the end of the list, and the labeling interface."""
        super().finish()
        self._file.write("\n]\n")
        lines = ["<View>", VIDEO, *self._tags.values(), "</View>", ""]
        self._interface.write("\n".join(lines))

    def _keyframe(self, box: SinkBox, goes_on: bool, video: SinkVideo) -> dict[str, Any]:
        """Return a box in percent; after one that is not enabled it is not shown."""
        seconds = float(video.frames.times[box.frame])
        frame = round(float(self._times.numbers(seconds))) + 1
        left, top, right, bottom = (100 * share for share in box.corners)
        return {
            "frame": frame,
            "enabled": goes_on,
            "rotation": 0,
            "x": round(left, 4),
            "y": round(top, 4),
            "width": round(right - left, 4),
            "height": round(bottom - top, 4),
            "time": float(self._times.seconds(frame)),
        }

    def _add(self, tag: str, label_type: str, value: dict[str, Any], score: float) -> None:
        self._results.append(
            {
                "id": f"{self._count + 1}-{len(self._results) + 1}",
                "from_name": tag,
                "to_name": "video",
                "type": label_type,
                "value": value,
                "score": score,
            }
        )

    def _add_tag(
        self, tag: str, name: str, label_tag: str, labels: Any, attributes: str = ""
    ) -> None:
        """Add a tag to the interface, with its labels."""
        if name not in self._tags:
            lines = [f"    <{label_tag} value={quoteattr(label)}/>" for label in labels]
            start = f'  <{tag} name={quoteattr(name)} toName="video"{attributes}>'
            self._tags[name] = "\n".join([start, *lines, f"  </{tag}>"])

    def _address(self, path: str) -> str:
        """Return where Label Studio finds a video in its storage of local files."""
        folder, place = os.path.abspath(self.target.parent), os.path.abspath(path)
        inside = Path(place).is_relative_to(folder)
        return LOCAL_FILES + quote(os.fsencode(name_from(folder if inside else "/", place)))


def _interface_of(target: Path) -> Path:
    return target.with_name(f"{target.stem}.interface.xml")
