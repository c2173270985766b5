"""A trained recogniser for pictures: its weights, what it sees of a video, what it says."""

import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from torch import Tensor, nn

from mmvidformer.config import config_scope, pipelines
from mmvidformer.engine.views import set_views


def pipeline_of(cfg: Config, splits: Sequence[str]) -> list[dict]:
    """Copy the pipeline of the first of ``splits`` that has one.

    Raises:
        ValueError: If none has.
    """
    loaders = (cfg.get(f"{split}_dataloader") or {} for split in splits)
    found = (p for loader in loaders for p in pipelines(loader.get("dataset", {})))
    pipeline = next(found, None)
    if pipeline is None:
        wanted = " or ".join(f"{split}_dataloader" for split in splits)
        raise ValueError(f"the config has no pipeline in {wanted}")
    return deepcopy(list(pipeline))


def build_view_pipeline(cfg: Config, clips: int = 1) -> Compose:
    """Build the config's validation pipeline (its test pipeline where it has none).

    Args:
        cfg: A recognition config.
        clips: Clips of each video, evenly spread; of each the centre crop.

    Raises:
        ValueError: If the config has neither pipeline, or it samples no frames.
    """
    holder = Config({"test_pipeline": pipeline_of(cfg, ("val", "test"))})
    set_views(holder, clips, 1)
    steps = holder.test_pipeline
    steps[-1]["meta_keys"] = ("frame_inds",)  # what PackActionInputs keeps besides the pixels
    with config_scope(cfg):
        return Compose(steps)


def read_video(pipeline: Compose, video: str | Path) -> tuple[Tensor, Tensor]:
    """Read the clips of a video file.

    Args:
        pipeline: From ``build_view_pipeline``.
        video: The file.

    Returns:
        Pixels (clips, C, T, H, W) as the pipeline leaves them, and the numbers of their frames
        in the video (clips, T).

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it can't be read as a video by this pipeline.
    """
    if not Path(video).is_file():
        raise FileNotFoundError(f"there is no video {video}")
    sample = dict(filename=str(video), label=-1, start_index=0, modality="RGB")
    sample["segment"] = (0, sys.maxsize)  # LimitToSegment is told to take the whole file
    try:
        packed = pipeline(sample)
    except (RuntimeError, KeyError, OSError, ValueError) as error:
        steps = ", ".join(type(step).__name__ for step in pipeline.transforms)
        raise ValueError(f"{video} cannot be read as a video by {steps}: {error!r}") from error
    clips = packed["inputs"]
    return clips, torch.as_tensor(packed["data_samples"].frame_inds).reshape(len(clips), -1)


def normalise(model: nn.Module, clips: Tensor) -> Tensor:
    """Bring clips (N, C, T, H, W) from a pipeline to what the backbone takes."""
    data = model.data_preprocessor({"inputs": [clips], "data_samples": None}, training=False)
    return data["inputs"][0]


@torch.no_grad()
def predict(model: nn.Module, features: Tensor, names: Sequence[str] | None = None) -> list[str]:
    """Say in words what the head makes of features.

    Args:
        model: A recogniser; of a ``MultiTaskHead`` each task is told.
        features: Of N clips (N, D).
        names: Names of the head's outputs, in order; default: their numbers.

    Returns:
        For each clip the likeliest class and its probability, as ``'left 97%'``.
    """
    logits = model.cls_head(features).float()
    tasks: Mapping[str, int] = getattr(model.cls_head, "tasks", {"": logits.shape[1]})
    texts, start = [], 0
    for task, size in tasks.items():
        best = logits[:, start : start + size].softmax(dim=1).max(dim=1)
        labels = [names[start + i] if names else f"class {i}" for i in best.indices.tolist()]
        texts.append(
            [
                f"{task} {label} {score:.0%}".strip()
                for label, score in zip(labels, best.values.tolist(), strict=True)
            ]
        )
        start += size
    return [", ".join(parts) for parts in zip(*texts, strict=True)]


def read_names(path: str | Path, count: int) -> list[str]:
    """Read the names of ``count`` classes, one a line.

    Raises:
        ValueError: If the file has another number of lines.
    """
    names = Path(path).read_text(encoding="utf-8").splitlines()
    if len(names) != count:
        raise ValueError(f"{path} has {len(names)} names, the model {count} classes")
    return names
