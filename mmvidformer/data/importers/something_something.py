"""Something-Something's JSON files of version 2, and csv files of version 1.

The class is the template, without the brackets, as in its own file of labels. Files of test videos
have no class, and are refused by name.
"""

from collections.abc import Iterator

from mmvidformer.data.importers.export import Export
from mmvidformer.data.splits import split_in_name
from mmvidformer.errors import UserError


def recognize(export: Export) -> bool:
    """Whether videos have a number and a template."""
    videos = export.json
    return isinstance(videos, list) and bool(videos) and _has_template(videos[0])


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each video."""
    split = split_in_name(export.path)
    for video in export.json:
        place = f"{export.path}, video {str(video)[:40]}"
        if not _has_template(video):
            raise UserError(f"{place}: expected id and template")
        label = str(video["template"]).replace("[", "").replace("]", "")
        yield {"video": str(video["id"]), "label": label, "split": split}, place


def _has_template(video: object) -> bool:
    return isinstance(video, dict) and {"id", "template"} <= video.keys()
