"""Scores of classes of whole videos, which segments take their classes from."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mmvidformer.errors import UserError
from mmvidformer.storage.files import read_json


def read_video_scores(file: str) -> dict[str, list[float]]:
    """Read a JSON of scores of all classes by the name of the video.

    They may be under ``results``, as in those that are published for ActivityNet.
    """
    content = read_json(file)
    content = content.get("results", content)
    if not isinstance(content, dict):
        what = type(content).__name__
        raise UserError(f"{file} must have scores by the names of videos, got a {what}")
    return content


def scores_of_video(
    path: str, scores: Mapping[str, list[float]], file: str, count: int | None
) -> np.ndarray:
    """Return the scores of a video, of ``count`` classes if that is known.

    Names in the file may lack the folder and the suffixes of the video.
    """
    name = Path(path).name
    while name not in scores and "." in name:
        name = name.rpartition(".")[0]
    if name not in scores:
        raise UserError(f"{file} has no scores of {Path(path).name}")
    row = np.asarray(scores[name], float)
    if row.shape != (count or len(row),):
        wanted = f"a score of {name} for each of {count or 'the'} classes"
        raise UserError(f"{file} must have {wanted}, got the shape {row.shape}")
    return row


def fuse_scores(segments: np.ndarray, scores: np.ndarray, classes: int, count: int) -> np.ndarray:
    """Give segments the best classes of their video, as ActionFormer does with ``ext_score_file``.

    Args:
        segments: Start, end, class and score of each, (n, 4).
        scores: Those of the classes of the video.
        classes: How many of these each segment is copied for.
        count: How many segments, the best ones, are used.

    Returns:
        The copies (m, 4). A score is the root of the product of both.
    """
    best = segments[np.argsort(segments[:, 3])[::-1][:count]]
    labels = np.argsort(scores)[::-1][:classes]
    copies = np.tile(best, (len(labels), 1))
    copies[:, 2] = np.repeat(labels, len(best))
    copies[:, 3] = np.sqrt(np.outer(scores[labels], best[:, 3])).flatten()
    return copies
