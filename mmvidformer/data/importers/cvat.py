"""CVAT's XML 1.1 of videos: tracks of boxes.

A track is a segment of its class while it is seen, and a box at each of its frames, unless it
always is the whole frame. Between two keyframes a box moves in a straight line, as in CVAT; from a
keyframe that is ``outside`` on it is not seen until the next one. Frames are those of the video,
counted from 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mmvidformer.data.importers.export import Export, reading
from mmvidformer.data.importers.frames import Corners, box_row, interpolate
from mmvidformer.errors import UserError

STEP = "step="  # of a task's ``frame_filter``
EDGES = ("xtl", "ytl", "xbr", "ybr")
WHOLE = 0.95  # share of width and height from which on a box is the whole frame


class Keyframe(NamedTuple):
    """A box that somebody drew, in pixels, from a frame on; and the values of its attributes."""

    frame: int
    corners: Corners
    is_outside: bool
    values: Mapping[str, str]


@dataclass
class CvatTask:
    """A video that was annotated.

    Attributes:
        video: Its name.
        last: Its last frame; None if the file does not say.
        step: Number of frames from one that was shown to the next.
        size: Width and height in pixels; None if the file does not say.
    """

    video: str
    last: int | None = None
    step: int = 1
    size: tuple[float, float] | None = None


def recognize(export: Export) -> bool:
    """Whether annotations have CVAT's version, or its tracks."""
    root = export.xml
    if root is None or root.tag != "annotations":
        return False
    return root.find("version") is not None or root.find("track/box") is not None


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield segments and boxes of the tracks.

    Raises:
        UserError: If it is an export of images, or a number is none.
    """
    root = export.xml
    if images := root.findall("image/*"):
        if root.find("track") is None:
            raise UserError(f"{export.path} is CVAT's export of images; export CVAT for video 1.1")
        export.leave_out("image box", len(images))
    with reading(f"{export.path}, meta"):
        tasks = _read_tasks(root, export)
    for number, track in enumerate(root.iterfind("track")):
        place = f"{export.path}, track {track.get('id', number)}"
        task = tasks.get(track.get("task_id") or "", next(iter(tasks.values())))
        shapes = [shape for shape in track if shape.tag != "track"]  # which a skeleton has
        if not shapes or any(shape.tag != "box" for shape in shapes):
            export.leave_out(f"{shapes[0].tag if shapes else 'empty'} track")
            continue
        with reading(place):
            keyframes = _read_keyframes(shapes)
            is_turned = any(float(shape.get("rotation") or 0) for shape in shapes)
        if is_turned:
            export.leave_out("turned track")
            continue
        row = {"video": task.video, "label": track.get("label") or ""}
        row["track"] = str(track.get("id", number))
        for start, end, values in _list_spans(keyframes, task):
            times = {
                "start": export.seconds(task.video, start),
                "end": export.seconds(task.video, end),
            }
            yield {**row, **values, **times}, f"{place}, frame {start}"
        size = task.size or export.size(task.video)
        if size is None or all(_is_whole(keyframe.corners, size) for keyframe in keyframes):
            continue
        for frame, corners, values in _list_boxes(keyframes, task):
            cells = box_row(corners, size)
            if cells is None:
                export.leave_out("outlying box")
                continue
            time = export.seconds(task.video, frame)
            yield {**row, **values, **cells, "time": time}, f"{place}, frame {frame}"


def _read_tasks(root: Element, export: Export) -> dict[str, CvatTask]:
    """Return the annotated videos, by the number of their task."""
    meta = root.find("meta")
    if meta is None:
        return {"": CvatTask(export.path.stem)}
    elements = meta.findall("project/tasks/task") or meta.findall("task") or meta.findall("job")
    tasks = {}
    for element in elements or [meta]:
        name = element.findtext("source") or meta.findtext("source") or element.findtext("name")
        task = CvatTask(name or export.path.stem)
        last = element.findtext("stop_frame")
        size = element.findtext("size")
        if last or size:
            task.last = int(last) if last else int(size) - 1
        frame_filter = element.findtext("frame_filter") or ""
        if frame_filter.startswith(STEP):
            task.step = int(frame_filter.removeprefix(STEP))
        shape = element.find("original_size")
        shape = meta.find("original_size") if shape is None else shape
        if shape is not None:
            task.size = float(shape.findtext("width")), float(shape.findtext("height"))
        tasks[element.findtext("id") or ""] = task
    return tasks


def _read_keyframes(shapes: list[Element]) -> list[Keyframe]:
    """Return the keyframes of a track, in order; an attribute keeps its value until it changes."""
    keyframes = []
    values: dict[str, str] = {}
    for shape in sorted(shapes, key=lambda shape: int(shape.attrib["frame"])):
        if shape.get("keyframe", "1") != "1":
            continue
        for attribute in shape.iterfind("attribute"):
            values = {**values, attribute.get("name", ""): (attribute.text or "").strip()}
        corners = tuple(float(shape.attrib[edge]) for edge in EDGES)
        is_outside = shape.get("outside") == "1"
        keyframes.append(Keyframe(int(shape.attrib["frame"]), corners, is_outside, values))
    return keyframes


def _list_spans(
    keyframes: list[Keyframe], task: CvatTask
) -> Iterator[tuple[int, int, Mapping[str, str]]]:
    """Yield first frame, frame after the last one, and values, while a track is seen."""
    start = None
    for keyframe, following in pairwise([*keyframes, None]):
        start = keyframe if start is None and not keyframe.is_outside else start
        if start is None:
            continue
        end = following.frame if following else _frame_after(keyframe, task)
        goes_on = following and not following.is_outside and following.values == start.values
        if keyframe.is_outside or not goes_on:
            yield start.frame, end, start.values
            start = None


def _is_whole(corners: Corners, size: tuple[float, float]) -> bool:
    left, top, right, bottom = corners
    width, height = size
    return right - left >= WHOLE * width and bottom - top >= WHOLE * height


def _list_boxes(
    keyframes: list[Keyframe], task: CvatTask
) -> Iterator[tuple[int, Corners, Mapping[str, str]]]:
    """Yield frame, corners and values of each box that is seen."""
    for keyframe, following in pairwise([*keyframes, None]):
        if keyframe.is_outside:
            continue
        end = following.frame if following else _frame_after(keyframe, task)
        for frame in range(keyframe.frame, end, task.step):
            corners = keyframe.corners
            if following:
                share = (frame - keyframe.frame) / (end - keyframe.frame)
                corners = interpolate(corners, following.corners, share)
            yield frame, corners, keyframe.values


def _frame_after(keyframe: Keyframe, task: CvatTask) -> int:
    """Return the frame after the last one of a track whose last keyframe is seen."""
    last = keyframe.frame if task.last is None else max(task.last, keyframe.frame)
    return last + task.step
