"""Features of videos, what a recognizer's backbone gives to its head, and their files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import set_forkserver_preload
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from mmvidformer.apis.pipeline import VideoPipeline, normalize
from mmvidformer.apis.windows import check_step, list_windows, read_ahead, times_of
from mmvidformer.atomic import write_atomically
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import find_videos
from mmvidformer.datasets.workers import init_worker
from mmvidformer.engine.launch import PRELOADED
from mmvidformer.models.shared_frames import SharedFrames, frames_of_stage, split_stages

Found = tuple[Path, Tensor | str, dict]  # video, its features or an error, and facts of them
VIDEOS_OF_WORKER = 8  # at least: fewer are read before a worker has started


@torch.no_grad()
def backbone_features(
    model: nn.Module, clips: Tensor, tokens: bool = False, batch_size: int = 4
) -> Tensor:
    """Run the backbone of a recognizer on clips.

    Args:
        model: A recognizer with a ``VideoTransformer`` or preset, in evaluation mode.
        clips: Clips (N, C, T, H, W) of a pipeline.
        tokens: Whether to return the encoder's tokens instead of one vector per clip.
        batch_size: Number of clips per forward pass.

    Returns:
        Features (N, D), averaged over the tokens if the backbone leaves that to its head; or
        tokens (N, T, H, W, D). On the CPU, float32.

    Raises:
        ValueError: If the model has another backbone.
    """
    _check_backbone(model)
    parts = []
    for part in normalize(model, clips).split(batch_size):
        features = model.backbone.forward_features(part)[0] if tokens else model.backbone(part)
        parts.append(features if tokens else _pool(features))
    return torch.cat([part.float().cpu() for part in parts])


@torch.no_grad()
def window_features(shared: SharedFrames, sample: dict) -> Tensor:
    """Return ``backbone_features`` of a window, whose views (N, C, T, H, W) run together.

    Args:
        shared: The model, and what it knows of the frames of earlier windows.
        sample: The window, from a ``VideoPipeline``.
    """
    model, rest = shared.stages.model, shared.stages.rest
    _check_backbone(model)
    views = normalize(model, sample["inputs"])
    features = shared.encode(views[None], [sample["data_samples"]])
    if features is None:
        return backbone_features(model, sample["inputs"])
    return _pool(rest.backbone(features[0])).float().cpu()


def _check_backbone(model: nn.Module) -> None:
    if not hasattr(model.backbone, "forward_features"):
        raise ValueError(f"{type(model.backbone).__name__} is not a transformer with features")


def _pool(features: Tensor) -> Tensor:
    """Average tokens (N, T, H, W, D) to (N, D); features that are pooled stay."""
    return features.mean(dim=(1, 2, 3)) if features.dim() == 5 else features


class VideoViews(Dataset):
    """Videos with their views (crops, C, T, H, W); of an unreadable one its error, as a text."""

    def __init__(self, pipeline: VideoPipeline, videos: Sequence[Path]) -> None:
        self.pipeline, self.videos = pipeline, videos

    def __len__(self) -> int:
        return len(self.videos)

    def __getitem__(self, index: int) -> tuple[Path, Tensor | str]:
        video = self.videos[index]
        try:
            return video, self.pipeline.read(self.pipeline.open(video))["inputs"]
        except (OSError, ValueError) as error:
            return video, str(error)


def read_views(
    pipeline: VideoPipeline, videos: Sequence[Path], workers: int = 0, batch_size: int = 1
) -> Iterator[list[tuple[Path, Tensor | str]]]:
    """Read videos in at most ``workers`` processes; yields batches of ``VideoViews``, in order."""
    dataset = VideoViews(pipeline, videos)
    options: dict[str, Any] = dict(batch_size=batch_size, collate_fn=list)
    workers = min(workers, len(videos) // VIDEOS_OF_WORKER)
    if workers:
        set_forkserver_preload(PRELOADED)
        options |= dict(num_workers=workers, worker_init_fn=init_worker)
        options |= dict(multiprocessing_context="forkserver")
    return iter(DataLoader(dataset, **options))


def read_windows(
    pipeline: VideoPipeline, video: dict, every: int, model: nn.Module
) -> tuple[dict[str, Any], Iterator[dict]]:
    """Read the clip that starts every N frames of an opened video, in a thread.

    Returns:
        What ``LoadFeatures`` needs to know, ``every``, ``span``, ``fps`` and ``frames``; the span
        of a clip whose frames are spread over a video is ``every``. And the sample of each clip,
        with views (crops, C, T, H, W); the first of a video that is shorter than a clip.

    Raises:
        ValueError: As ``times_of``.
    """
    times, frames = times_of(video), video["total_frames"]
    span = max(round(pipeline.span(times.rate) or every), 1)
    period = pipeline.period(span, times.rate, frames_of_stage(model))
    check_step(span, every, period, times.seconds(period))
    windows = list_windows(frames, span, every, to_end=False)
    samples = read_ahead(pipeline.read(video, window) for window in windows)
    return dict(every=every, span=span, fps=times.rate, frames=frames), samples


def every_video(
    pipeline: VideoPipeline, model: nn.Module, videos: Sequence[Path], tokens: bool, workers: int
) -> Iterator[Found]:
    """Compute the features of videos, or their tokens."""
    for ((video, views),) in read_views(pipeline, videos, workers):
        try:
            if isinstance(views, str):
                raise ValueError(views)
            values = backbone_features(model, views, tokens)
        except ValueError as error:
            yield video, str(error), {}
            continue
        yield video, values if tokens else values.mean(dim=0), {}


def every_window(
    pipeline: VideoPipeline, model: nn.Module, videos: Sequence[Path], every: int
) -> Iterator[Found]:
    """Compute the features of the clips that start every N frames, read in a thread."""
    stages = split_stages(model)

    def features_of(samples: Iterator[dict]) -> list[Tensor]:
        if stages is None:
            return [backbone_features(model, sample["inputs"]) for sample in samples]
        shared = SharedFrames(stages)
        return [window_features(shared, sample) for sample in samples]

    for video in videos:
        try:
            opened = pipeline.open(video)
            facts, samples = read_windows(pipeline, opened, every, model)
            rows = [features.mean(dim=0) for features in features_of(samples)]
        except (OSError, ValueError) as error:
            yield video, str(error), {}
            continue
        yield video, torch.stack(rows), facts


def list_videos(source: Path) -> tuple[Path, list[Path]]:
    """Return the folder that names are relative to, and the videos."""
    if source.is_dir():
        return source, find_videos(source)
    if not source.is_file():
        raise FileNotFoundError(f"video, folder or list {source} does not exist")
    if source.suffix != ".txt":
        return source.parent, [source]
    return source.parent, [source.parent / path for _, path in read_list(source)]


def target_of(video: Path, root: Path, out: Path, suffix: str = ".npy") -> Path:
    """Return the file of a video's features; a video outside the root keeps its whole path.

    It is ``clip.mp4.npy`` or ``clip.mp4.npz``, or ``clip.csv`` as MMAction2 names csv files.
    """
    if not video.is_relative_to(root):
        video = video.absolute()
        root = Path(video.anchor)
    place = video.relative_to(root)
    if suffix == ".csv":
        return out / place.with_suffix(suffix)
    return out / place.with_name(f"{place.name}{suffix}")


def check_settings(out: Path, settings: Mapping[str, object]) -> None:
    """Record the settings of a folder of features, or compare them with those of an old folder."""
    record = out / "features.json"
    if not record.is_file():
        out.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(dict(settings), indent=1) + "\n", encoding="utf-8")
        return
    recorded = json.loads(record.read_text(encoding="utf-8"))
    differ = sorted(key for key in settings if recorded.get(key) != settings[key])
    if differ:
        what = f"{out} has features with another {', '.join(differ)} ({record})"
        raise FileExistsError(f"{what}; use another folder")


def write_features(target: Path, values: np.ndarray, rows: int | None = None, **facts: Any) -> None:
    """Write features as .npy, with ``facts`` as .npz, or as csv for MMAction2's ActivityNetDataset.

    For csv the features (n, D) are resized linearly to a number of rows.
    """
    with write_atomically(target) as part, part.open("wb") as file:
        if rows is not None:
            old, new = np.arange(len(values)), (np.arange(rows) + 0.5) * len(values) / rows - 0.5
            table = np.stack([np.interp(new, old, column) for column in values.T], axis=1)
            header = ",".join(f"f{i}" for i in range(values.shape[1]))
            np.savetxt(file, table, "%.6g", ",", header=header, comments="")
        elif facts:
            np.savez(file, features=values, **facts)
        else:
            np.save(file, values)
