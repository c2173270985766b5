"""Kinetics' own csv and JSON files of clips on YouTube.

A clip's file has the video's name on YouTube, with or without start and end in seconds as six
digits, as the scripts that load Kinetics call it: ``-3B32lodo2M_000059_000069.mp4``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mmvidformer.data.importers.export import Export, reading
from mmvidformer.errors import UserError

CSV = {"youtube_id", "time_start", "time_end"}
SPLITS = {"validate": "val"}  # which others call otherwise


def recognize(export: Export) -> bool:
    """Whether a csv file has the names of its columns, or JSON a clip of YouTube by name."""
    if set(export.columns) >= CSV:
        return True
    return isinstance(export.json, dict) and _is_clip(next(iter(export.json.values()), None))


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each clip; those of a test set have no class, and are left out."""
    if export.json is None:
        clips = _list_rows(export)
    else:
        clips = _list_clips(export)
    for name, start, end, label, split, place in clips:
        if not label:
            export.leave_out("unlabelled clip")
            continue
        with reading(place):
            long_name = f"{name}_{int(float(start)):06}_{int(float(end)):06}"
        video = name if export.find(long_name) is None else long_name
        yield {"video": video, "label": label, "split": SPLITS.get(split, split)}, place


def _list_rows(export: Export) -> Iterator[tuple[str, ...]]:
    for row, place in export.table.read(*CSV):
        times = row["time_start"], row["time_end"]
        yield row["youtube_id"], *times, row.get("label", ""), row.get("split", ""), place


def _list_clips(export: Export) -> Iterator[tuple[str, ...]]:
    for name, clip in export.json.items():
        place = f"{export.path}, {name}"
        if not _is_clip(clip):
            raise UserError(f"{place}: expected segment and label, got {str(clip)[:100]}")
        annotations = clip["annotations"]
        start, end = annotations["segment"]
        split = str(clip.get("subset", ""))
        yield name, str(start), str(end), str(annotations.get("label", "")), split, place


def _is_clip(clip: Any) -> bool:
    annotations = clip.get("annotations") if isinstance(clip, Mapping) else None
    segment = annotations.get("segment") if isinstance(annotations, Mapping) else None
    return isinstance(segment, list) and len(segment) == 2
