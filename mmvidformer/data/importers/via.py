"""Projects of VIA 3, the VGG Image Annotator for videos.

An annotation has times ``z``, none, one or two, and coordinates ``xy``: with two times it is a
segment, with one a moment or a rectangle, without any it is of the whole video. Its attributes are
columns. The label is the first attribute that it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmvidformer.data.importers.export import Export, reading
from mmvidformer.data.importers.fields import read_numbers, read_object
from mmvidformer.data.importers.frames import box_row

PARTS = ("project", "attribute", "file", "metadata")
SHAPES = ("", "point", "rectangle", "circle", "ellipse", "line", "polyline", "polygon")
RECTANGLE = 2
CHECKBOX = 2  # type of an attribute that may have several values


def recognize(export: Export) -> bool:
    """Whether it has the parts of a project."""
    project = export.json
    return isinstance(project, dict) and all(isinstance(project.get(x), dict) for x in PARTS)


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row for each label of each annotation, and one of each video without.

    Raises:
        UserError: If a part of an annotation is missing, or of another type.
    """
    project = export.json
    annotated = set()
    for number in project["metadata"]:
        place = f"{export.path}, annotation {number}"
        with reading(place):
            annotation = read_object(project["metadata"], number)
            videos = _list_videos(project, str(annotation.get("vid")))
            columns = _list_columns(project["attribute"], read_object(annotation, "av"))
            where = _read_place(export, annotation, videos)
        annotated.update(videos)
        if where is None:
            continue
        if not columns:
            export.leave_out("unlabelled annotation")
        for video in videos:
            for labels in columns:
                yield {"video": video, **labels, **where}, place
    for view in project.get("view") or {}:
        place = f"{export.path}, view {view}"
        with reading(place):
            videos = _list_videos(project, view)
        yield from (({"video": video}, place) for video in videos if video not in annotated)


def _list_videos(project: Mapping[str, Any], view: str) -> list[str]:
    """Return the names of the files of a view, which are shown beside each other."""
    views = project.get("view") or {view: {"fid_list": [view]}}
    files = [project["file"][str(number)] for number in views[view]["fid_list"]]
    return [str(file.get("fname") or file["src"]) for file in files]


def _list_columns(attributes: Mapping[str, Any], values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the columns of an annotation, one for each label that it has."""
    named: dict[str, list[str]] = {}
    for number in attributes:
        attribute = read_object(attributes, number)
        value = str(values.get(number) or "")
        options = read_object(attribute, "options")
        several = options and attribute.get("type") == CHECKBOX
        parts = value.split(",") if several else [value]
        texts = [str(options.get(part, part)).strip() for part in parts]
        if texts := [text for text in texts if text]:
            named[str(attribute["aname"])] = texts
    if not named:
        return []
    cells = {name: ";".join(texts) for name, texts in named.items()}
    labels = next(iter(named.values()))
    return [{**cells, "label": label} for label in labels]


def _read_place(
    export: Export, annotation: Mapping[str, Any], videos: Sequence[str]
) -> dict[str, str] | None:
    """Return the columns of times and corners; None if no task takes it."""
    times, shape = (read_numbers(annotation, name) for name in ("z", "xy"))
    if shape:
        number = int(shape[0])
        if number != RECTANGLE or len(times) != 1:
            export.leave_out(SHAPES[number] if 0 < number < len(SHAPES) else "shape")
            return None
        left, top, width, height = shape[1:5]
        size = export.size(videos[0])
        cells = box_row((left, top, left + width, top + height), size) if size else {}
        if cells is None:
            export.leave_out("outlying box")
            return None
        return {**cells, "time": str(times[0])}
    if len(times) > 2:
        export.leave_out("many-times annotation")
        return None
    names = {0: (), 1: ("time",), 2: ("start", "end")}[len(times)]
    return {name: str(time) for name, time in zip(names, times, strict=True)}
