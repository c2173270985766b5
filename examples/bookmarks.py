"""Importer: bookmarks of a video player, --format bookmarks (docs/extending.md).

Below a first line BOOKMARKS, a line is ``VIDEO|FRAME|LABEL``; a label after ``#`` is a comment.
"""

from mmvidformer.data.importers.export import reading


def recognize(export):
    """Whether it begins as bookmarks do."""
    return export.head.startswith("BOOKMARKS")


def read(export):
    """Yield a moment for each bookmark, and its place for messages."""
    for number, line in enumerate(export.text.splitlines()[1:], start=2):
        place = f"{export.path}, line {number}"
        with reading(place):
            video, frame, label = line.split("|")
            time = export.seconds(video, int(frame))
        if label.startswith("#"):
            export.leave_out("comment")
        else:
            yield {"video": video, "time": time, "label": label}, place
