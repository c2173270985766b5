"""Label Studio's JSON and JSON-MIN.

``timelinelabels`` are segments, those of one frame moments, ``choices`` labels of the video,
``videorectangle`` boxes, which move in a straight line between two keyframes. Frames count from 1,
and both ends belong to a segment.
Choices of a region are a column, by the name of their tag. JSON-MIN does not tell a choice from
other texts: all are columns, and the label if there is only one.

Label Studio has a rate of its own, of the tag ``Video``, which may differ from that of the video.
It stands in no export, but keyframes of boxes have frame and time. Without any, and without ``fps``
in the data of a task, it is ``Export.fps``, else that of the video, as a line then says.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mmvidformer.data.folders import is_video
from mmvidformer.data.importers.export import Export, reading, show_second
from mmvidformer.data.importers.fields import (
    Part,
    read_number,
    read_object,
    read_objects,
    read_texts,
)
from mmvidformer.data.importers.frames import box_row, interpolate
from mmvidformer.data.lists import say_count
from mmvidformer.errors import UserError
from mmvidformer.video.times import FrameTimes

Row = dict[str, str]
Clock = Callable[[int], str]  # the second at which a frame, counted from 0, is first shown
PERCENT = (100, 100)
MINIMAL = ("annotation_id", "annotator", "lead_time")  # of each task in JSON-MIN
RECORDS = {*MINIMAL, "id", "created_at", "updated_at", "agreement"}
UPLOADS = "/data/upload/"
PREFIX = 9  # characters that an upload has before its name: 8 digits and a hyphen
ASSUMED = (
    "frames are taken for those of the videos; without frameRate in its tag Video, Label Studio "
    "counts 24 a second: --fps 24"
)
LABELS = ("timelinelabels", "labels", "choices")


def recognize(export: Export) -> bool:
    """Whether there are tasks with data and annotations, or those of JSON-MIN."""
    tasks = _tasks_of(export.json)
    if not tasks or not all(isinstance(task, dict) for task in tasks):
        return False
    first = tasks[0]
    is_whole = isinstance(first.get("data"), dict) and {"annotations", "predictions"} & first.keys()
    return bool(is_whole) or all(name in first for name in MINIMAL)


def read(export: Export) -> Iterator[tuple[Row, str]]:
    """Yield rows of all annotations, or of predictions in a file that knows no annotations.

    Of several annotations of a task it takes the ground truth, else the latest one.

    Raises:
        UserError: If a task has no video, or a part is missing or of another type.
    """
    predicted = 0
    for number, task in enumerate(_tasks_of(export.json), start=1):
        place = f"{export.path}, task {number}"
        with reading(place):
            rows = [*_read_task(export, task)]
        if "annotations" not in task and task.get("predictions"):
            predicted += len(rows)
        for row in rows:
            yield row, place
    if predicted:
        rows_read = say_count(predicted, "row of predictions")
        print(f"{export.path}: {rows_read}, which nobody corrected", file=sys.stderr)
    if export.has_frames and export.fps is None:
        print(f"{export.path}: {ASSUMED}", file=sys.stderr)


def _tasks_of(content: Any) -> Sequence[Any]:
    return content if isinstance(content, list) else [content]


def _read_task(export: Export, task: Part) -> Iterator[Row]:
    data = read_object(task, "data") if "data" in task else task
    video = _name_of_video(data)
    results = _list_results(export, task)
    choices: dict[str, Row] = {}  # of regions
    parts = []  # of the video
    regions = {result["id"] for result in results if "id" in result and _has_place(result)}
    for result in results:
        if result.get("type") == "choices" and result.get("id") in regions:
            labels = ";".join(read_texts(result["value"], "choices"))
            choices.setdefault(result["id"], {})[str(result.get("from_name"))] = labels
        else:
            parts.append(result)
    clock = _find_clock(export, video, parts, data.get("fps"))
    texts = {} if "data" in task else _texts_of(task)
    has_rows = False
    for result in parts:
        for row in _read_result(export, result, clock):
            yield {"video": video, **texts, **choices.get(result.get("id"), {}), **row}
            has_rows = True
    if texts:
        label = {"label": next(iter(texts.values()))} if len(texts) == 1 else {}
        yield {"video": video, **texts, **label}
    elif not has_rows:
        yield {"video": video}


def _name_of_video(data: Part) -> str:
    """Return the name of the video of a task, without what Label Studio adds."""
    texts = [value for value in data.values() if isinstance(value, str)]
    addresses = [urlsplit(text) for text in texts]
    for address in addresses:
        path = unquote(address.path)
        if UPLOADS in path:
            name = path.rpartition("/")[2]
            path = name[PREFIX:] if name[PREFIX - 1 : PREFIX] == "-" else name
        elif path.endswith("/local-files/"):
            path = parse_qs(address.query).get("d", [""])[0]
        if is_video(path):
            return path
    raise UserError(f"it has no video, only {str(texts)[:200]}")


def _list_results(export: Export, task: Part) -> list[Part]:
    """Return the results of an annotation, as they stand in JSON."""
    if "data" not in task:
        return _list_minimal_results(task)
    if "annotations" not in task:
        *_, latest = {}, *read_objects(task, "predictions")
        return read_objects(latest, "result")
    annotations = []
    for annotation in read_objects(task, "annotations"):
        if annotation.get("was_cancelled"):
            export.leave_out("cancelled annotation")
        else:
            annotations.append(annotation)
    if not annotations:
        return []

    def order(annotation: Part) -> tuple[bool, str]:
        return bool(annotation.get("ground_truth")), str(annotation.get("updated_at"))

    *others, best = sorted(annotations, key=order)
    if others:
        export.leave_out("second annotation", len(others))
    return read_objects(best, "result")


def _texts_of(task: Part) -> dict[str, str]:
    """Return the texts of a task in JSON-MIN: single choices, other texts, and its data."""
    texts = {}
    for tag, value in task.items():
        if isinstance(value, str) and tag not in RECORDS and not is_video(urlsplit(value).path):
            texts[tag] = value
    return texts


def _list_minimal_results(task: Part) -> list[Part]:
    """Return the results of JSON-MIN, which has lists of values by the name of the tag."""
    results: list[Part] = []
    for tag, values in task.items():
        values = [values] if isinstance(values, Mapping) else values
        for value in values if isinstance(values, list) else ():
            if not isinstance(value, Mapping):
                continue
            label_type = next((name for name in LABELS if name in value), "")
            label_type = "videorectangle" if "sequence" in value else label_type
            results.append({"type": label_type, "from_name": tag, "value": value})
    return results


def _has_place(result: Part) -> bool:
    return any(name in read_object(result, "value") for name in ("ranges", "sequence", "start"))


def _find_clock(export: Export, video: str, results: Sequence[Part], fps: Any) -> Clock:
    """Find the rate of a task, which says when its frames are shown; else the video says it."""
    rate = float(fps or 0)
    if not rate:
        values = [read_object(result, "value") for result in results]
        keyframes = [item for value in values for item in read_objects(value, "sequence")]
        timed = [item for item in keyframes if item.get("time")]
        if timed:
            last = max(timed, key=lambda item: read_number(item, "time"))  # the most exact
            rate = read_number(last, "frame") / last["time"]
    return partial(show_second, FrameTimes(rate)) if rate else partial(export.seconds, video)


def _read_result(export: Export, result: Part, clock: Clock) -> Iterator[Row]:
    """Yield the rows of a result."""
    value = read_object(result, "value")
    label_type = result.get("type")
    if label_type == "videorectangle":
        yield from _read_boxes(export, value, str(result.get("id") or ""), clock)
    elif label_type == "timelinelabels":
        for span in read_objects(value, "ranges"):
            first, last = (int(read_number(span, name)) for name in ("start", "end"))
            times = {"time": clock(first - 1)}
            if first != last:
                times = {"start": clock(first - 1), "end": clock(last)}
            for label in read_texts(value, "timelinelabels"):
                yield {"label": label, **times}
    elif label_type == "labels" and "start" in value:  # of the sound, in seconds
        times = {name: str(read_number(value, name)) for name in ("start", "end")}
        for label in read_texts(value, "labels"):
            yield {"label": label, **times}
    elif label_type == "choices":
        for label in read_texts(value, "choices"):
            yield {"label": label}
    else:
        export.leave_out(str(label_type or result.get("from_name")))


def _read_boxes(export: Export, value: Part, track: str, clock: Clock) -> Iterator[Row]:
    """Yield a box at each frame at which a rectangle is shown, with each of its labels.

    A keyframe that is not enabled is the last frame of a part, as in Label Studio.
    """
    keyframes = read_objects(value, "sequence")
    keyframes = sorted(keyframes, key=lambda keyframe: read_number(keyframe, "frame"))
    labels = read_texts(value, "labels")
    if not labels:
        export.leave_out("unlabelled rectangle")
        return
    if any(keyframe.get("rotation") for keyframe in keyframes):
        export.leave_out("turned rectangle")
        return
    for number, keyframe in enumerate(keyframes):
        following = keyframes[number + 1] if number + 1 < len(keyframes) else None
        frame, count = int(keyframe["frame"]), 1
        if keyframe.get("enabled", True):
            last = read_number(value, "framesCount") if "framesCount" in value else frame
            count = int(following["frame"] if following else last + 1) - frame
        for passed in range(count):
            corners = _corners_of(keyframe)
            if following:
                corners = interpolate(corners, _corners_of(following), passed / count)
            cells = box_row(corners, PERCENT)
            if cells is None:
                export.leave_out("outlying box")
                continue
            time = clock(frame + passed - 1)
            for label in labels:
                yield {"label": label, "track": track, "time": time, **cells}


def _corners_of(keyframe: Part) -> tuple[float, ...]:
    """Return left, top, right and bottom in percent."""
    left, top, width, height = (
        read_number(keyframe, name) for name in ("x", "y", "width", "height")
    )
    return left, top, left + width, top + height
