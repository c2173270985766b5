"""COCO's JSON of boxes in frames of videos, as TAO, CocoVID of OpenMMLab and this package write it.

``images`` are frames: ``video_id`` leads to ``videos``, and ``frame_id`` or ``frame_index`` is the
number, from 0. Without them, ``file_name`` is that of a folder of frames, ``VIDEO/000012.jpg``.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from mmvidformer.data.importers.export import Export, reading
from mmvidformer.data.importers.fields import Part, read_number, read_numbers, read_objects
from mmvidformer.data.importers.frames import box_row

LISTS = ("images", "annotations", "categories")
NUMBERS = ("frame_id", "frame_index")


def recognize(export: Export) -> bool:
    """Whether there are pictures, annotations and classes."""
    content = export.json
    return isinstance(content, dict) and all(isinstance(content.get(x), list) for x in LISTS)


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield a row of each box.

    Raises:
        UserError: If a part is missing, or of another type, or a picture is of no video.
    """
    with reading(str(export.path)):
        videos, images, categories = (
            {item["id"]: item for item in read_objects(export.json, name)}
            for name in ("videos", "images", "categories")
        )
        annotations = read_objects(export.json, "annotations")
    for annotation in annotations:
        place = f"{export.path}, annotation {annotation.get('id')}"
        with reading(place):
            image = images[annotation["image_id"]]
            video, frame = _find_frame(image, videos)
            row = {"video": video, "label": str(categories[annotation["category_id"]]["name"])}
            if "track_id" in annotation:
                row["track"] = str(annotation["track_id"])
            left, top, width, height = read_numbers(annotation, "bbox")
            size = read_number(image, "width"), read_number(image, "height")
        cells = box_row((left, top, left + width, top + height), size)
        if cells is None:
            export.leave_out("outlying box")
            continue
        yield {**row, **cells, "time": export.seconds(video, frame)}, place


def _find_frame(image: Part, videos: dict[int, Part]) -> tuple[str, int]:
    """Return the name of the video of a picture, and the number of the frame."""
    path = PurePosixPath(str(image.get("file_name") or ""))
    video, name = videos.get(image.get("video_id")), next((x for x in NUMBERS if x in image), None)
    digits = re.findall("[0-9]+", path.stem)
    if (video is None and not path.parent.name) or (name is None and not digits):
        raise KeyError(f"video or frame of the picture {path}")
    frame = int(digits[-1]) if name is None else int(read_number(image, name))
    return str(video["name"]) if video else path.parent.name, frame
