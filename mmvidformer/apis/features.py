"""Features of videos, a file each."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import nn

from mmvidformer.apis.video_views import Source, VideoViews
from mmvidformer.engine.checkpointing.atomic import write_atomically
from mmvidformer.visualization import normalise

FORMATS = ("npy", "parquet")
RECORD = "features.json"


@torch.no_grad()
def video_features(
    model: nn.Module, views: VideoViews, video: Source, tokens: bool = False, most: int = 4
) -> np.ndarray:
    """Run the backbone of a recogniser over the test views of a video.

    Args:
        model: In evaluation mode; its backbone has ``forward_features``.
        views: The test pipeline.
        video: File or frames.
        tokens: Keep views and tokens apart.
        most: Views a step.

    Returns:
        What the head gets, averaged over the views, and over the tokens where the backbone leaves
        that to the head: (D,). Of tokens the encoder's grid: (views, T, H, W, D).

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it can't be read.
        TypeError: If the backbone gives no tokens.
    """
    if not hasattr(model.backbone, "forward_features"):
        raise TypeError(
            "features are of ViViT, TimeSformer and FeatureFixationTransformer; "
            f"the config's backbone is {type(model.backbone).__name__}"
        )
    clips = normalise(model, views.read(views.open(video))["inputs"])
    parts = []
    for part in clips.split(most):
        found = model.backbone.forward_features(part)[0] if tokens else model.backbone(part)
        if not tokens and found.dim() == 5:
            found = found.mean(dim=(1, 2, 3))
        parts.append(found.float().cpu())
    values = torch.cat(parts)
    return (values if tokens else values.mean(dim=0)).numpy()


def check_record(out: Path, settings: Mapping[str, object]) -> None:
    """Note what the features of a folder are of, or see that it is the same.

    Raises:
        FileExistsError: If the folder has features of another model, format or kind.
    """
    record = out / RECORD
    if record.is_file():
        found = json.loads(record.read_text(encoding="utf-8"))
        differ = sorted(key for key in settings if found.get(key) != settings[key])
        if differ:
            raise FileExistsError(
                f"{out} has features with another {', '.join(differ)} ({record}); choose another "
                "folder"
            )
        return
    out.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(dict(settings), indent=1) + "\n", encoding="utf-8")


def write_features(
    videos: Iterable[tuple[Path, Path]],
    features: Callable[[Path], np.ndarray],
    file_format: str = "npy",
) -> Iterator[tuple[Path, str | None]]:
    """Write the features of each video, and pass over those that are there.

    Files are whole or not there: each is written under another name and then renamed.

    Args:
        videos: Each video and its file, without the ending of the format.
        features: Gives the features of a video.
        file_format: ``'npy'``, or ``'parquet'``: a row with ``video``, ``shape`` and ``values``.

    Yields:
        The video, and ``'written'``, ``'there'``, or what went wrong.

    Raises:
        ValueError: If the format is unknown.
        ImportError: If parquet is asked for and pyarrow is not installed.
    """
    if file_format not in FORMATS:
        raise ValueError(f"format must be one of {FORMATS}, got {file_format!r}")
    if file_format == "parquet":
        _pyarrow()
    for video, stem in videos:
        target = stem.with_name(f"{stem.name}.{file_format}")
        if target.exists():
            yield video, "there"
            continue
        try:
            values = features(video)
        except (OSError, ValueError) as error:
            yield video, f"failed: {error}"
            continue
        write_atomically(target, partial(_save, file_format, video, values))
        yield video, "written"


def _save(file_format: str, video: Path, values: np.ndarray, file: BinaryIO) -> None:
    if file_format == "npy":
        np.save(file, values)
        return
    pyarrow = _pyarrow()
    columns = {"video": [str(video)], "shape": [list(values.shape)], "values": [values.ravel()]}
    pyarrow.parquet.write_table(pyarrow.table(columns), file)


def _pyarrow() -> object:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("parquet needs pyarrow: pip install pyarrow") from error
    return pyarrow
