"""The errors of a test: which they are, and frames of their videos, in a page and in a picture."""

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import compress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import cv2
import numpy as np
from matplotlib.figure import Figure

from mmvidformer.data.sources import RemoteVideo
from mmvidformer.errors import UserError
from mmvidformer.sinks.figures import without_formulas
from mmvidformer.sinks.scores import Scores, activation_of, select_scores
from mmvidformer.storage.files import is_remote
from mmvidformer.storage.names import name_from, spell
from mmvidformer.video.errors import with_suffix
from mmvidformer.video.video import Video

COLUMNS, HEIGHT = 4, 160  # frames of a video, and their pixels
LEAST, OVERLAP, NEAR = 0.3, 0.5, 0.5  # score, overlap and seconds by which spans are found
NOTHING = "nothing"
STYLE = """body{font:15px/1.4 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;
color:#1a1a1a;background:#fff}article{border-top:1px solid #ccc;padding:.8rem 0}
h2{font-size:1rem;margin:0;overflow-wrap:anywhere}p{margin:.2rem 0}b{overflow-wrap:anywhere}
.frames{display:grid;grid-template-columns:repeat(4,1fr);gap:.5rem}figure{margin:0}
img{display:block;width:100%;max-height:14rem;object-fit:contain;object-position:left}
figcaption,.reason{color:#555;font-size:.85rem}.answer{color:#a40000}"""


class Mistake(NamedTuple):
    """A wrong answer.

    Attributes:
        video: The file.
        truth: What is true.
        answer: What was answered.
        confidence: How wrong it is: the confidence of the wrong answer, from 0 to 1; of classes
            over time, times its seconds; of values, the error in standard deviations.
        seconds: The part that it is about. None: the whole video.
        box: Left, top, right and bottom as shares, if it is about a box.
    """

    video: str
    truth: str
    answer: str
    confidence: float
    seconds: tuple[float, float] | None = None
    box: Sequence[float] | None = None


def find_mistakes(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], task: str | None, path: str | Path
) -> list[Mistake]:
    """Return the wrong answers of a file of ``SaveScores``, the worst first.

    A class is wrong if another one has the highest score. Of labels and boxes, those are answers
    that have more than 0.5. Of segments and moments, those of a score of 0.3: one is wrong that
    overlaps no true one of its class by half, or lies 0.5 s from it, and so is a true one that none
    finds. Of classes over time, each run of frames with one wrong answer and one truth is an error.
    Values are all wrong by something.

    Raises:
        UserError: If the file names no videos, or as ``select_scores``.
    """
    if "videos" not in arrays:
        raise UserError(f"{path} has no names of videos; test again with --dump")
    if "found" in arrays:
        mistakes = _wrong_spans(arrays, names)
    elif "runs" in arrays:
        mistakes = _wrong_runs(arrays, names)
    elif "boxes" in arrays:
        mistakes = _wrong_boxes(arrays, names)
    elif (activation := activation_of(arrays, path)) == "none":
        mistakes = _wrong_numbers(arrays, names)
    elif activation == "sigmoid":
        mistakes = _wrong_labels(arrays, names)
    else:
        mistakes = _wrong_classes(select_scores(arrays, task, path), names)
    return sorted(mistakes, key=lambda mistake: -mistake.confidence)


def _wrong_classes(scores: Scores, names: Sequence[str]) -> Iterator[Mistake]:
    values, videos = scores.values, np.asarray(scores.videos)
    if values.min() < 0 or not np.allclose(values.sum(axis=1), 1, atol=1e-3):  # logits
        values = np.exp(values - values.max(axis=1, keepdims=True))
        values /= values.sum(axis=1, keepdims=True)
    for video, row, label in zip(videos.tolist(), values, scores.labels, strict=True):
        best = int(row.argmax())
        if best != label:
            truth = f"{names[label]} ({row[label]:.0%})"
            yield Mistake(video, truth, f"{names[best]} ({row[best]:.0%})", float(row[best]))


def _wrong_labels(arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> Iterator[Mistake]:
    is_good = ~arrays["bad_videos"]
    videos, scores = arrays["videos"][is_good], arrays["scores"][is_good]
    labels = arrays["labels"][is_good].reshape(scores.shape) > 0
    if ((scores < 0) | (scores > 1)).any():  # logits
        scores = 1 / (1 + np.exp(-scores))
    for video, row, truth in zip(videos.tolist(), scores, labels, strict=True):
        if ((row > 0.5) != truth).any():
            yield Mistake(video, *_compare(row, truth, names))


def _wrong_boxes(arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> Iterator[Mistake]:
    for number, second, *box_and_classes in arrays["boxes"]:
        box, (scores, labels) = box_and_classes[:4], np.reshape(box_and_classes[4:], (2, -1))
        if ((scores > 0.5) != (labels > 0)).any():
            video, seconds = str(arrays["videos"][int(number)]), (float(second), float(second))
            yield Mistake(video, *_compare(scores, labels > 0, names), seconds, box)


def _compare(scores: np.ndarray, truth: np.ndarray, names: Sequence[str]) -> tuple[str, str, float]:
    """Return the true classes, those that are answered, and the error of the worst score."""
    named = [f"{name} ({share:.0%})" for name, share in zip(names, scores, strict=True)]
    right, answer = (
        ", ".join(compress(named, chosen)) or NOTHING for chosen in (truth, scores > 0.5)
    )
    return right, answer, float(np.abs(scores - truth).max())


def _wrong_numbers(arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> Iterator[Mistake]:
    is_good = ~arrays["bad_videos"]
    if not is_good.any():
        return
    videos, values = arrays["videos"][is_good], arrays["scores"][is_good]
    truths = arrays["labels"][is_good].reshape(values.shape)
    deviations = truths.std(axis=0)
    errors = np.abs(values - truths) / np.where(deviations > 0, deviations, 1)
    for video, *rows, error in zip(videos, truths, values, errors.mean(axis=1), strict=True):
        truth, answer = (
            ", ".join(f"{name} {value:.4g}" for name, value in zip(names, row, strict=True))
            for row in rows
        )
        yield Mistake(str(video), truth, answer, float(error))


def _wrong_runs(arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> Iterator[Mistake]:
    for number, start, end, answer, truth, score in arrays["runs"]:
        if truth >= 0 and answer != truth:
            texts = names[int(truth)], f"{names[int(answer)]} ({score:.0%})"
            seconds = float(start), float(end)
            video = str(arrays["videos"][int(number)])
            yield Mistake(video, *texts, float(score * (end - start)), seconds)


def _wrong_spans(arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> Iterator[Mistake]:
    for number in np.flatnonzero(~arrays["bad_videos"]):
        video = str(arrays["videos"][number])
        answers, true = (arrays[key][arrays[key][:, 0] == number, 1:] for key in ("found", "true"))
        is_near = _are_near(answers, true)  # (answers, true spans)
        is_right = is_near & (answers[:, None, 2] == true[None, :, 2])
        scores = np.where(is_right, answers[:, 3:], 0).max(axis=0, initial=0)
        for (start, end, label, score), near, right in zip(answers, is_near, is_right, strict=True):
            if score >= LEAST and not right.any():
                truth = ", ".join(names[int(i)] for i in true[near, 2]) or NOTHING
                answer = f"{names[int(label)]} ({score:.0%})"
                yield Mistake(video, truth, answer, float(score), (float(start), float(end)))
        for (start, end, label), near, score in zip(true, is_near.T, scores, strict=True):
            if score < LEAST and not (near & (answers[:, 3] >= LEAST)).any():  # else told above
                seconds = float(start), float(end)
                yield Mistake(video, names[int(label)], NOTHING, 1 - float(score), seconds)


def _are_near(answers: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return which spans (n,) are the same as which others (m,), (n, m); moments have no length."""
    start = np.maximum(answers[:, None, 0], true[None, :, 0])
    end = np.minimum(answers[:, None, 1], true[None, :, 1])
    lengths = (answers[:, 1] - answers[:, 0])[:, None] + (true[:, 1] - true[:, 0])[None]
    both = (end - start).clip(min=0)
    return np.where(lengths > 0, both >= OVERLAP * (lengths - both), start - end <= NEAR)


def read_frames(mistake: Mistake) -> list[tuple[str, np.ndarray]]:
    """Decode frames of the part, evenly spread, each with its second as text.

    Raises:
        UserError: If the video cannot be read; or an ``OSError``.
    """
    name = mistake.video
    video = RemoteVideo(name).open() if is_remote(name) else Video.open(with_suffix(name))
    shares = (np.arange(COLUMNS) + 0.5) / COLUMNS
    if mistake.seconds is None:
        numbers = (shares * len(video)).astype(int)
    else:
        start, end = mistake.seconds
        margin = 0 if end > start else NEAR
        seconds = start - margin + shares * (end - start + 2 * margin)
        numbers = np.asarray(video.at(seconds.clip(min=0)))
    times = video.times[numbers] if video.frame_times.rate else [None] * COLUMNS
    return [
        ("" if second is None else f"{second:.2f} s", _small(frame, mistake.box))
        for second, frame in zip(times, video.frames(numbers.tolist()), strict=True)
    ]


def _small(frame: np.ndarray, box: Sequence[float] | None) -> np.ndarray:
    """Return a small frame, with its box."""
    height, width = frame.shape[:2]
    width = max(round(width * HEIGHT / height), 1)
    small = cv2.resize(frame, (width, HEIGHT), interpolation=cv2.INTER_AREA)
    if box is not None:
        left, top, right, bottom = np.multiply(box, [width, HEIGHT, width, HEIGHT]).astype(int)
        for color, thickness in (((0, 0, 0), 4), ((255, 220, 0), 2)):
            cv2.rectangle(small, (left, top), (right, bottom), color, thickness)
    return small


def make_page(title: str, mistakes: Sequence[Mistake], summary: str, folder: Path) -> str:
    """Return an HTML page of mistakes, which needs no other file; videos are links.

    Args:
        title: Its title.
        mistakes: What is shown.
        summary: The line below the title.
        folder: Where the page will be, for the links.
    """
    rows = "".join(f"<article>{''.join(_row(row, folder))}</article>\n" for row in mistakes)
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1><p>{escape(summary)}</p>\n{rows}</body></html>\n"
    )


def _row(mistake: Mistake, folder: Path) -> Iterator[str]:
    where = ""
    if mistake.seconds:
        start, end = mistake.seconds
        where = f"{start:.2f} to {end:.2f} s" if end > start else f"at {start:.2f} s"
    name = escape(spell(mistake.video))
    if link := _link(mistake.video, folder):
        name = f'<a href="{link}">{name}</a>'
    yield f"<h2>{name} {where}</h2>"
    yield f"<p>truth: <b>{escape(mistake.truth)}</b></p>"
    yield f'<p>answer: <b class="answer">{escape(mistake.answer)}</b></p>'
    try:
        frames = read_frames(mistake)
    except (UserError, OSError) as error:
        yield f'<p class="reason">no frames: {escape(spell(str(error)))}</p>'
        return
    yield '<div class="frames">'
    for caption, frame in frames:
        _, content = cv2.imencode(".jpg", frame[..., ::-1])
        source = f"data:image/jpeg;base64,{base64.b64encode(content.tobytes()).decode()}"
        yield f'<figure><img src="{source}" alt=""><figcaption>{caption}</figcaption></figure>'
    yield "</div>"


def _link(video: str, folder: Path) -> str:
    """Return the address of a video, if a browser opens it; of a file, relative to the page."""
    if is_remote(video):
        return escape(video) if video.startswith(("http://", "https://")) else ""
    return quote(os.fsencode(name_from(os.path.realpath(folder), os.path.realpath(video))))


def draw_mistakes(mistakes: Sequence[Mistake]) -> Figure:
    """Draw a row of frames for each mistake."""
    figure = Figure(figsize=(1.9 * COLUMNS, 1.8 * len(mistakes)), dpi=90, layout="constrained")
    parts = figure.subfigures(len(mistakes), 1, squeeze=False)[:, 0]
    for part, mistake in zip(parts, mistakes, strict=True):
        title = f"truth: {mistake.truth}; answer: {mistake.answer}"
        part.suptitle(f"{Path(mistake.video).name}\n{title}", fontsize=9)
        axes = part.subplots(1, COLUMNS)
        for axis in axes:
            axis.set_axis_off()
        try:
            for axis, (caption, frame) in zip(axes, read_frames(mistake), strict=True):
                axis.imshow(frame)
                axis.set_title(caption, fontsize=8, pad=2)
        except (UserError, OSError) as error:
            axes[0].set_title(spell(str(error))[:80], fontsize=8, loc="left")
    return without_formulas(figure)
