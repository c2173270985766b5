"""Predictions of a recogniser on files, arrays, windows of long videos, and streams."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmvidformer.apis.video_views import WHOLE, Opened, Source, VideoViews
from mmvidformer.config import load_config
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.models.horst.heads import AnticipationHead


@dataclass(frozen=True)
class Prediction:
    """What a model says of a video, or a part of it.

    Attributes:
        source: The file; None for arrays and streams.
        scores: By task (``'class'`` where there is one only), what the head gives after fusing the
            views: the figures that ``tools/test.py`` evaluates.
        probabilities: The same as probabilities.
        names: Names of the classes by task.
        seconds: Begin and end of the part; None for the whole.
    """

    source: str | None
    scores: dict[str, np.ndarray]
    probabilities: dict[str, np.ndarray]
    names: dict[str, Sequence[str]]
    seconds: tuple[float, float] | None = None

    def top(self, k: int = 5, task: str | None = None) -> list[tuple[int, str, float]]:
        """The k likeliest classes: number, name and probability; fewer if there are fewer.

        Raises:
            KeyError: If the model has no such task.
        """
        task = next(iter(self.scores)) if task is None else task
        shares = self.probabilities[task]
        best = np.argsort(-shares, kind="stable")[:k]
        return [(int(i), self.names[task][i], float(shares[i])) for i in best]

    def record(self, k: int = 5) -> dict:
        """Plain types for JSON: source, seconds, and for each task the k likeliest classes."""
        tops = {
            task: [
                {"class": number, "name": name, "score": round(share, 6)}
                for number, name, share in self.top(k, task)
            ]
            for task in self.scores
        }
        begin_end = [round(x, 3) for x in self.seconds] if self.seconds else None
        return {"source": self.source, "seconds": begin_end, "predictions": tops}


@dataclass(frozen=True)
class Failure:
    """A video that could not be read, and why."""

    source: str | None
    error: Exception


class Recognizer:
    """A trained model, ready to be called on videos.

    Reads videos by the config's own test pipeline, with all its views, so that the scores are those
    of ``tools/test.py``.

    Args:
        config: Config, its file, or the name of a shipped one.
        checkpoint: File or address.
        device: Where the model runs, such as ``'cuda'``.
        names: Names of the classes by task; default: the config's ``class_names`` (which
            ``tools/finetune.py`` writes), or numbers.
        batch_size: Videos a step; 1 where the config limits the views of a step
            (``max_testing_views``).

    Raises:
        FileNotFoundError: If there is no such checkpoint.
        ValueError: If the weights are of another model, the model predicts no class of a video, or
            there are not as many names as classes.
    """

    def __init__(
        self,
        config: str | Config,
        checkpoint: str,
        device: str | torch.device = "cpu",
        names: dict[str, Sequence[str]] | None = None,
        batch_size: int = 8,
    ) -> None:
        cfg = load_config(config) if isinstance(config, str) else config
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.views = VideoViews(cfg)
        self.model = load_recognizer(cfg, checkpoint, device)
        self.tasks = video_tasks(self.model)
        if names is None and len(self.tasks) == 1 and cfg.get("class_names"):
            names = {task: cfg.class_names for task in self.tasks}
        numbers = {task: [str(i) for i in range(count)] for task, count in self.tasks.items()}
        self.names = {**numbers, **(names or {})}
        for task, count in self.tasks.items():
            if len(self.names[task]) != count:
                raise ValueError(
                    f"{len(self.names[task])} names for the {count} classes of {task!r}"
                )
        limited = (getattr(self.model, "test_cfg", None) or {}).get("max_testing_views")
        self.batch_size = 1 if limited else batch_size

    def __call__(self, videos: Source | Iterable[Source]) -> Prediction | list[Prediction]:
        """Predict one video, or several.

        Args:
            videos: Path or RGB frames (T, H, W, 3) of 8 bit; or an iterable of these.

        Returns:
            A prediction, or a list of them.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If a video can't be read.
        """
        single = isinstance(videos, str | Path | np.ndarray)
        found = []
        for one in self.each([videos] if single else videos):
            if isinstance(one, Failure):
                raise one.error
            found.append(one)
        return found[0] if single else found

    def each(self, videos: Iterable[Source]) -> Iterator[Prediction | Failure]:
        """Predict videos in batches, in order, as they come; those that can't be read are told."""

        def open_whole(source: Source) -> Callable[[], tuple[Opened, Sequence[int]]]:
            return lambda: (self.views.open(source), WHOLE)

        yield from self._run((_name(source), None, open_whole(source)) for source in videos)

    def timeline(
        self,
        video: Source,
        window: float = 2.0,
        stride: float | None = None,
        fps: float | None = None,
    ) -> Iterator[Prediction]:
        """Predict a long video in windows, as they come.

        Each window is read by the test pipeline as if it were a video. The last one ends with the
        video; a video that is shorter than a window is one window.

        Args:
            video: Path, or frames.
            window: Seconds of a window.
            stride: Seconds from one window to the next; default: half a window.
            fps: Frames a second of an array.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the video can't be read, states no frame rate, or window or stride are
                not above 0.
        """
        opened = self.views.open(video, fps)
        if not opened.fps:
            raise ValueError(f"{_name(video) or 'the array'} has no frame rate: give fps")
        parts = list_windows(opened.frames, opened.fps, window, stride)
        jobs = (
            (_name(video), (first / opened.fps, (last + 1) / opened.fps), _constant(opened, part))
            for part in parts
            for first, last in [part]
        )
        for one in self._run(jobs):
            if isinstance(one, Failure):
                raise one.error
            yield one

    def stream(
        self,
        frames: Iterable[np.ndarray],
        fps: float,
        window: float = 2.0,
        stride: float | None = None,
    ) -> Iterator[Prediction]:
        """Predict a running stream: after each stride the last window of frames.

        Args:
            frames: RGB (H, W, 3), 8 bit; consumed one by one. Those of a window are kept.
            fps: Frames a second.
            window: Seconds of a window.
            stride: Seconds from one prediction to the next; default: half a window.

        Raises:
            ValueError: If frames can't be read, or window, stride or fps are not above 0.
        """
        for _, prediction in self.follow(frames, fps, window, stride):
            if prediction is not None:
                yield prediction

    def follow(
        self,
        frames: Iterable[np.ndarray],
        fps: float,
        window: float = 2.0,
        stride: float | None = None,
    ) -> Iterator[tuple[np.ndarray, Prediction | None]]:
        """Give back each frame of a stream, with the prediction that it completes, if any.

        Arguments and errors are those of ``stream``.
        """
        size, step = _in_frames(fps, window, stride)
        held: deque[np.ndarray] = deque(maxlen=size)
        for count, frame in enumerate(frames, start=1):
            held.append(frame)
            if count < size or (count - size) % step:
                yield frame, None
                continue
            part = ((count - size) / fps, count / fps)
            opened = self.views.open(np.stack(held), fps)
            for one in self._run([(None, part, _constant(opened, WHOLE))]):
                if isinstance(one, Failure):
                    raise one.error
                yield frame, one

    def _run(self, jobs: Iterable[tuple]) -> Iterator[Prediction | Failure]:
        """Read and predict in batches; a job is source, seconds, and what gives video and part."""
        held: list[tuple] = []
        for source, seconds, prepare in jobs:
            try:
                held.append((source, seconds, self.views.read(*prepare())))
            except (OSError, ValueError) as error:
                held.append((source, seconds, error))
            if len(held) == self.batch_size:
                yield from self._predict(held)
                held = []
        yield from self._predict(held)

    @torch.no_grad()
    def _predict(self, held: Sequence[tuple]) -> Iterator[Prediction | Failure]:
        by_shape = defaultdict(list)
        for i, (_, _, item) in enumerate(held):
            if not isinstance(item, Exception):
                by_shape[tuple(item["inputs"].shape)].append(i)
        done = {}
        for places in by_shape.values():
            items = [held[i][2] for i in places]
            batch = {key: [item[key] for item in items] for key in ("inputs", "data_samples")}
            done.update(zip(places, self.model.test_step(batch), strict=True))
        for i, (source, seconds, item) in enumerate(held):
            if isinstance(item, Exception):
                yield Failure(source, item)
                continue
            scores = done[i].pred_score
            scores = scores if isinstance(scores, dict) else {next(iter(self.tasks)): scores}
            scores = {task: value.float().cpu() for task, value in scores.items()}
            fuse = self.model.cls_head.average_clips
            shares = {task: _probabilities(value, fuse).numpy() for task, value in scores.items()}
            plain = {task: value.numpy() for task, value in scores.items()}
            yield Prediction(source, plain, shares, self.names, seconds)


def video_tasks(model: nn.Module) -> dict[str, int]:
    """Tasks of a model's predictions of a video, and their numbers of classes.

    Raises:
        ValueError: If it predicts no class of a video.
    """
    head = model.cls_head
    if isinstance(head, AnticipationHead):
        raise ValueError(
            "an anticipation model predicts what comes next, not the class of a video: "
            "tools/demo_stream.py follows a video or a camera with it"
        )
    return dict(getattr(head, "tasks", None) or {"class": head.num_classes})


def list_windows(
    frames: int, fps: float, window: float, stride: float | None = None
) -> list[tuple[int, int]]:
    """First and last frame of each window of a video; the last one ends with it.

    Raises:
        ValueError: If window, stride or fps are not above 0.
    """
    size, step = _in_frames(fps, window, stride)
    firsts = list(range(0, max(frames - size, 0) + 1, step))
    if firsts[-1] + size < frames:
        firsts.append(frames - size)
    return [(first, min(first + size, frames) - 1) for first in firsts]


def _in_frames(fps: float, window: float, stride: float | None) -> tuple[int, int]:
    stride = window / 2 if stride is None else stride
    if min(fps, window, stride) <= 0:
        raise ValueError(
            f"window, stride and fps must be above 0, got {window:g} s, {stride:g} s and {fps:g}"
        )
    return max(1, round(window * fps)), max(1, round(stride * fps))


def _probabilities(scores: Tensor, fuse: str | None) -> Tensor:
    if fuse == "prob":
        return scores
    shares = scores.softmax(dim=-1)
    return shares.mean(dim=0) if fuse is None else shares  # of None a row a view is left


def _constant(opened: Opened, part: Sequence[int]) -> Callable[[], tuple[Opened, Sequence[int]]]:
    return lambda: (opened, part)


def _name(source: Source) -> str | None:
    return None if isinstance(source, np.ndarray) else str(source)
