"""Predictions of a stream as records (JSON) and as bars for pictures."""

from collections.abc import Mapping, Sequence

from mmvidformer.apis.stream import StreamPrediction
from mmvidformer.visualization import Bars

HEADINGS = {"class": "so far", "action": "next action", "verb": "next verb", "noun": "next noun"}


def to_record(
    prediction: StreamPrediction,
    names: Mapping[str, Sequence[str]],
    k: int = 5,
    time_step: float | None = None,
) -> dict:
    """Put a prediction into plain types.

    Args:
        prediction: The prediction.
        names: Names of the classes by task.
        k: How many of the likeliest classes.
        time_step: Seconds of a step; needed where the model looks several times ahead.

    Returns:
        ``frame`` (number), ``seconds``, and ``predictions``: a list of ``task``, ``ahead`` (seconds
        to what is predicted, where the model names them) and ``top``, each with ``class``, ``name``
        and ``score`` (probability).

    Raises:
        ValueError: If the seconds of a step are needed and not given.
    """
    rows = []
    times = _times(prediction, time_step)
    for row in range(max(1, len(times))):
        ahead = {"ahead": times[row]} if times else {}
        for task in prediction.scores:
            top = [
                {"class": number, "name": names[task][number], "score": round(score, 6)}
                for number, score in prediction.top(task, k, row)
            ]
            rows.append({"task": task, **ahead, "top": top})
    frame = prediction.frame
    return {"frame": frame.number, "seconds": round(frame.seconds, 3), "predictions": rows}


def to_bars(
    prediction: StreamPrediction,
    names: Mapping[str, Sequence[str]],
    k: int = 5,
    time_step: float | None = None,
    ahead: float = 1.0,
) -> list[Bars]:
    """Put a prediction into bars: a group for each task, and the action at each time ahead.

    Args:
        prediction: The prediction.
        names: Names of the classes by task.
        k: How many of the likeliest classes.
        time_step: Seconds of a step; needed where the model looks several times ahead.
        ahead: The tasks are shown for the time that is nearest to so many seconds ahead.

    Raises:
        ValueError: If the seconds of a step are needed and not given.
    """
    times = _times(prediction, time_step)
    row = min(range(len(times)), key=lambda i: abs(times[i] - ahead)) if times else 0
    when = f" in {times[row]:.2f} s" if times else ""

    def named(task: str, most: int, row: int) -> list[tuple[str, float]]:
        return [(names[task][i], share) for i, share in prediction.top(task, most, row)]

    bars = [Bars(f"{HEADINGS[task]}{when}", named(task, k, row)) for task in prediction.scores]
    if times:
        best = [named("action", 1, i)[0] for i in range(len(times))]
        rows = [(f"{t:.2f} s {name}", share) for t, (name, share) in zip(times, best, strict=True)]
        bars.insert(0, Bars("action, by seconds ahead", rows))
    return bars


def _times(prediction: StreamPrediction, time_step: float | None) -> list[float]:
    """Seconds ahead of each row."""
    if prediction.ahead and time_step is None:
        raise ValueError(
            "the model looks steps ahead, and the config counts frames: it needs ObserveBefore, "
            "which says how many seconds a step has"
        )
    return [steps * (time_step or 0.0) for steps in prediction.ahead]
