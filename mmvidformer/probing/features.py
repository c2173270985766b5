"""Features of the videos of lists, computed once."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from torch import nn
from tqdm import tqdm

from mmvidformer.apis.feature_files import check_settings, target_of, write_features
from mmvidformer.apis.pipeline import VideoPipeline, inference_transforms, normalize
from mmvidformer.convert.fetch import hash_of
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import SPLITS, VideoLists

KINDS = ("vectors", "tokens")


class Split(NamedTuple):
    """A split: the videos that can be read, as files of features and classes; number of all."""

    files: list[Path]
    labels: np.ndarray
    count: int

    def load(self, numbers: Sequence[int] | None = None) -> np.ndarray:
        """Read the features of all videos, or of some."""
        chosen = self.files if numbers is None else [self.files[i] for i in numbers]
        return np.stack([np.load(file) for file in chosen])


def read_features(
    cfg: Config, model: nn.Module, lists: VideoLists, folder: Path, kinds: Sequence[str]
) -> dict[str, dict[str, Split]]:
    """Compute the features that are not in a folder yet, of the center view of each video.

    Args:
        cfg: Config of the model, with the weights ``load_from``.
        model: Recognizer with a ``VideoTransformer`` or preset, in evaluation mode.
        lists: Lists of one class a video. If one is empty, testing uses ``val``.
        folder: Folder of the features, ``KIND/PATH_OF_VIDEO.npy``.
        kinds: ``'vectors'`` (D,), averaged over the tokens if the backbone leaves that to its head;
            ``'tokens'`` (T H W, D).

    Returns:
        By kind and name of the split, its videos.

    Raises:
        FileExistsError: If the folder has features of other weights or settings.
        ValueError: If no training video can be read.
    """
    base = cfg.load_from
    settings = {"base": hash_of(Path(base)) if Path(base).is_file() else base}
    own = {k: v for k, v in cfg.model.backbone.items() if k not in ("pool", "frozen_stages")}
    settings |= {"pipeline": repr(inference_transforms(cfg, 1)), "backbone": repr(own)}
    for kind in kinds:
        pool = {"pool": model.backbone.pool} if kind == "vectors" else {}
        check_settings(folder / kind, settings | pool)
    rows = {split: videos_of(lists, split) for split in SPLITS}
    rows["test"] = rows["test"] or rows["val"]
    videos = dict.fromkeys(video for one in rows.values() for video, _ in one)
    pipeline = VideoPipeline(cfg, 1)
    for video in tqdm(videos, unit="video", disable=None):
        targets = [target_of(video, lists.root, folder / kind) for kind in kinds]
        if not all(target.exists() for target in targets):
            try:
                clips = pipeline.read(pipeline.open(video))["inputs"]
            except (OSError, ValueError) as error:
                tqdm.write(f"left out: {error}", file=sys.stderr)
                continue
            values = _features(model, clips)
            for kind, target in zip(kinds, targets, strict=True):
                write_features(target, values[kind])
    found = {k: {s: _split(rows[s], lists.root, folder / k) for s in SPLITS} for k in kinds}
    if not found[kinds[0]]["train"].files:
        raise ValueError(f"none of the {len(rows['train'])} training videos could be read")
    return found


@torch.no_grad()
def _features(model: nn.Module, clips: torch.Tensor) -> dict[str, np.ndarray]:
    grid, cls = model.backbone.forward_features(normalize(model, clips))
    vector = model.backbone.pool_features(grid, cls)
    vector = vector.flatten(1, -2).mean(dim=1) if vector.dim() == 5 else vector
    found = {"vectors": vector, "tokens": model.backbone.fc_norm(grid).flatten(1, 3)}
    return {kind: value[0].float().cpu().numpy() for kind, value in found.items()}


def videos_of(lists: VideoLists, split: str) -> list[tuple[Path, int]]:
    """Return path and class of each video of a list."""
    file, tab = lists.root / f"{split}.txt", lists.delimiter
    rows = read_list(file, tab) if lists.counts[split] else []
    return [(lists.root / path, int(text.strip().rpartition(tab)[2])) for text, path in rows]


def _split(rows: Sequence[tuple[Path, int]], root: Path, folder: Path) -> Split:
    found = [(target_of(video, root, folder), label) for video, label in rows]
    found = [(file, label) for file, label in found if file.exists()]
    labels = np.array([label for _, label in found], dtype=int)
    return Split([file for file, _ in found], labels, len(rows))
