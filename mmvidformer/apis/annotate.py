"""Films of videos with what a model says of them."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from mmvidformer.apis.capture import Capture, Pace
from mmvidformer.apis.recognizer import Prediction
from mmvidformer.visualization import Bars, Film, StreamPages, Window


def bars_of(prediction: Prediction, k: int = 5) -> list[Bars]:
    """The likeliest classes of each task, for the panel of a page."""
    part = prediction.seconds
    when = f"{part[0]:.1f} to {part[1]:.1f} s" if part else "whole video"
    single = len(prediction.scores) == 1
    return [
        Bars(
            when if single else f"{task}, {when}",
            [(name, share) for _, name, share in prediction.top(k, task)],
        )
        for task in prediction.scores
    ]


def prediction_at(predictions: Sequence[Prediction], seconds: float) -> Prediction:
    """The prediction of the window whose middle is nearest; of the whole video the only one."""
    if len(predictions) == 1:
        return predictions[0]
    middles = [sum(p.seconds) / 2 for p in predictions]
    return predictions[int(np.argmin([abs(middle - seconds) for middle in middles]))]


def play(
    video: str | Path,
    predictions: Sequence[Prediction],
    out: str | Path | None = None,
    window: Window | None = None,
    k: int = 5,
    progress: Callable[[Iterable, int | None], Iterable] = lambda frames, total: frames,
) -> bool:
    """Write a video with the predictions beside it, or show it.

    Frames are shown 360 to 720 pixels high, with letters of one size.

    Args:
        video: The file.
        predictions: Of its windows, or one of the whole.
        out: The .mp4 file, if any; its folder is made.
        window: Where to show it, if anywhere.
        k: Classes that are told.
        progress: Wraps the iteration over frames; gets their number, None if it is not known.

    Returns:
        False if the window was closed by its keys before the end.

    Raises:
        ValueError: If OpenCV cannot read the file.
        RuntimeError: If OpenCV cannot write ``out``.
    """
    pages = film = None
    try:
        with Capture(video) as source:
            frames = progress(source.frames(Pace()), source.total)
            for number, seconds, pixels in frames:
                bars = bars_of(prediction_at(predictions, seconds), k)
                if pages is None:
                    pages = StreamPages(pixels.shape[:2], bars)
                    if out is not None:
                        Path(out).parent.mkdir(parents=True, exist_ok=True)
                        film = Film(out, source.fps, pages.size)
                page = pages.draw(pixels, f"{seconds:.2f} s, frame {number}", bars)
                if film is not None:
                    film.add(page)
                if window is not None and not window.show(page, seconds):
                    return False
    finally:
        if film is not None:
            film.close()
    return True
