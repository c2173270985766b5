"""What the server answers to a video: rows of predictions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmvidformer.apis import Recognizer
from mmvidformer.engine.offer_options import Limits
from mmvidformer.web.addresses import fetch_video
from mmvidformer.web.limits import check_video
from mmvidformer.web.query import FILES, Asked

Row = dict[str, Any]


def answer_rows(
    recognizer: Recognizer,
    limits: Limits,
    video: Path,
    title: str,
    asked: Asked,
    prefixes: Sequence[str],
) -> Iterator[Row]:
    """A work of the process: check a video, and answer for it, or for its parts.

    Args:
        recognizer: The model.
        limits: What is refused.
        video: Path of the file.
        title: What its sender calls it.
        asked: Options. If they name an address, the video is fetched from there first.
        prefixes: Of the addresses that are allowed.
    """
    if asked.address:
        fetch_video(asked.address, prefixes, video, limits.max_mb)
    check_video(video, limits)
    for prediction in recognizer.answers(video, **asked.asked()):
        yield replace(prediction, source=title).row(asked.top)


def describe_model(recognizer: Recognizer, limits: Limits) -> Iterator[Row]:
    """A work of the process: tell what a model answers."""
    options = set(recognizer.task.options) - set(FILES)
    names = {output: list(classes) for output, classes in recognizer.names.items()}
    yield dict(answers_for=recognizer.task.part, options=sorted(options), classes=names)
