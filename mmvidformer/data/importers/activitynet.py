"""ActivityNet's JSON, and that of THUMOS14, FineAction, HACS and BMN.

``database`` holds, by the name of a video, its ``subset`` and its ``annotations`` (``segment`` in
seconds, ``label``). BMN's files hold the videos at the top, without a subset. Files of the videos
may have ``v_`` before the name.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mmvidformer.data.importers.export import Export
from mmvidformer.data.tables import Table
from mmvidformer.errors import UserError
from mmvidformer.storage.errors import refuse


def recognize(export: Export) -> bool:
    """Whether videos by name have segments."""
    return _database(export.json) is not None


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each segment, and one of each video without."""
    for name, video in (_database(export.json) or {}).items():
        place = f"{export.path}, {name}"
        if not isinstance(video, dict):
            raise UserError(f"{place}: expected annotations, got {str(video)[:100]}")
        row = {"video": name, "split": str(video.get("subset") or "")}
        annotations = video.get("annotations") or []
        if not annotations:
            yield row, place
        for annotation in annotations:
            yield {**row, **_read_segment(annotation, place)}, place


def read_subset(path: str, subset: str) -> Table:
    """Return the segments of a subset, under the names of the videos, which need not be there.

    Raises:
        UserError: If the file has another format, or no such subset.
    """
    export = Export(path)
    if not recognize(export):
        raise UserError(f"{path} is no JSON in ActivityNet's format")
    names = ["video", "start", "end", "label"]
    rows, subsets = [], set()
    for row, place in read(export):
        subsets.add(row["split"])
        if row["split"] == subset:
            rows.append(([row.get(name, "") for name in names], place))
    if not rows:
        raise UserError(f"{path} has no subset {subset!r}, only {', '.join(sorted(subsets))}")
    return Table(export.path, names, rows, export.folder)


def _database(content: Any) -> Mapping[str, Any] | None:
    """Return the videos by name, if it is in this format."""
    if not isinstance(content, dict):
        return None
    if isinstance(content.get("database"), dict):
        return content["database"]
    first = next(iter(content.values()), None)
    if not isinstance(first, dict) or not isinstance(first.get("annotations"), list):
        return None
    annotations = first["annotations"]
    has_segments = all(isinstance(item, dict) and "segment" in item for item in annotations)
    return content if has_segments else None


def _read_segment(annotation: Any, place: str) -> dict[str, str]:
    wanted = "expected a segment [start, end] and a label"
    with refuse(f"{place}: {wanted}, got {str(annotation)[:100]}"):
        start, end = annotation["segment"]
        label = str(annotation["label"]).strip()
    return {"start": str(start), "end": str(end), "label": label}
