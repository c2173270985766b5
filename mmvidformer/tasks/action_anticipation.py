"""Action anticipation: the verb, noun and action that come next."""

from collections.abc import Iterator
from typing import Any

from mmvidformer.tasks.base import Task


class ActionAnticipation(Task):
    """What comes next, after each frame of a video. ``finetune`` does not offer it."""

    name, head = "anticipation", "mmvidformer.AnticipationHead"
    part, has_windows = "steps", False
    is_about_future = True

    def parts(self, reader: Any, video: dict, options: dict[str, Any]) -> Iterator[tuple]:
        """Videos are read frame by frame."""
        raise ValueError("a model of anticipation answers frame by frame")
