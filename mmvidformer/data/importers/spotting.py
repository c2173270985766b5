"""JSON of event spotting: SoccerNet's, OpenSportsLab's and that of E2E-Spot.

- SoccerNet: ``Labels-v2.json``, ``Labels-ball.json``, ... lie beside the videos of a game, or a
  folder has such files. ``position`` is in milliseconds of a half, whose file begins with its
  number (``1_720p.mkv``). Without such files, a game is one file. The last by name counts, as
  ``1_720p.mkv`` comes after ``1_224p.mkv``. Both halves are one group.
- OpenSportsLab: ``data`` has ``inputs`` with paths, and ``events`` (``position_ms``) or ``labels``,
  which are columns. The label is the first of them.
- E2E-Spot, of tennis, figure skating, FineGym and FineDiving: a list of videos with ``events``, by
  frames, and ``fps``. If that is not positive, it is the video's.
"""

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from mmvidformer.data.folders import is_video, walk_files
from mmvidformer.data.importers.export import Export, reading
from mmvidformer.data.importers.fields import Part, read_number, read_object, read_objects
from mmvidformer.data.splits import split_in_name, split_of
from mmvidformer.errors import UserError

LABELS = "Labels-*.json"  # SoccerNet's
Rows = Iterator[tuple[dict[str, str], str]]


def recognize(export: Export) -> bool:
    """Whether a folder has labels of SoccerNet, or JSON has events of one of the formats."""
    if export.path.is_dir():
        return bool(_list_games(export.path))
    content = export.json
    first = content[0] if isinstance(content, list) and content else content
    if not isinstance(first, dict):
        return False
    if content is first:
        return _has(first, "annotations", "gameTime") or _has(first, "data", "inputs")
    return "video" in first and isinstance(first.get("events"), list)


def read(export: Export) -> Rows:
    """Yield a row of each event, or of each video with labels.

    Raises:
        UserError: If a part is missing, or of another type.
    """
    if export.path.is_dir():
        for file in _list_games(export.path):
            yield from read(export.part(file))
    elif isinstance(export.json, list):
        yield from _read_frames(export)
    elif "data" in export.json:
        yield from _read_positions(export)
    else:
        yield from _read_game(export)


def _list_games(folder: Path) -> list[Path]:
    return [path for path in map(Path, walk_files(str(folder))) if fnmatch(path.name, LABELS)]


def _has(content: Part, name: str, key: str) -> bool:
    items = content.get(name)
    return (
        isinstance(items, list) and bool(items) and isinstance(items[0], dict) and key in items[0]
    )


def _read_game(export: Export) -> Rows:
    game = str(export.json.get("UrlLocal") or export.path.parent)
    folders = (export.folder / game, export.path.parent)
    folder = next((path for path in folders if path.is_dir()), export.path.parent)
    videos = sorted(path for path in folder.iterdir() if is_video(str(path)))
    for number, event in enumerate(read_objects(export.json, "annotations"), start=1):
        place = f"{export.path}, annotation {number}"
        with reading(place):
            half = str(event["gameTime"]).partition("-")[0].strip()
            of_half = [path for path in videos if path.stem.split("_")[0] == half] or videos
            video = str(of_half[-1]) if of_half else f"{game}/{half}"
            row = {
                "video": video,
                "time": _seconds(event["position"]),
                "label": str(event["label"]),
            }
            further = {name: str(event[name]) for name in ("team", "visibility") if name in event}
        yield {**row, **further, "group": game}, place


def _read_positions(export: Export) -> Rows:
    split = split_of(str(read_object(export.json, "metadata").get("split") or "")) or ""
    for number, item in enumerate(read_objects(export.json, "data"), start=1):
        place = f"{export.path}, data {number}"
        with reading(place):
            videos = [str(part["path"]) for part in read_objects(item, "inputs")]
            rows = [
                {"time": _seconds(event["position_ms"]), "label": str(event["label"])}
                for event in read_objects(item, "events")
            ]
            labels = read_object(item, "labels")
            columns = {name: str(read_object(labels, name).get("label") or "") for name in labels}
        if columns:
            rows.append({**columns, "label": next(filter(None, columns.values()), "")})
        for video in videos:
            group = {"group": str(item.get("id") or video)} if len(videos) > 1 else {}
            for row in rows or [{}]:
                yield {"video": video, "split": split, **group, **row}, place


def _read_frames(export: Export) -> Rows:
    split = split_in_name(export.path)
    for number, item in enumerate(export.json, start=1):
        place = f"{export.path}, video {number}"
        with reading(place):
            video = str(item["video"])
            fps = read_number(item, "fps") if "fps" in item else 0
            events = read_objects(item, "events")
        if not events:
            yield {"video": video, "split": split}, place
        for event in events:
            with reading(place):
                frame = int(read_number(event, "frame"))
                label = str(event["label"])
            time = export.seconds(video, frame, fps if fps > 0 else None)
            yield {"video": video, "split": split, "time": time, "label": label}, place


def _seconds(milliseconds: object) -> str:
    text = str(milliseconds)
    if not text.isdigit():
        raise UserError(f"a position must be milliseconds, got {text[:60]}")
    return f"{int(text) / 1000:g}" if int(text) < 10**6 else f"{int(text) / 1000:.3f}"
