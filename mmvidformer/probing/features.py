"""Features of the videos of lists, computed once."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch.utils.data import default_collate
from tqdm import tqdm

from mmvidformer.apis.features import check_settings, target_of, write_features
from mmvidformer.apis.pipeline import VideoPipeline, inference_transforms, normalize
from mmvidformer.convert.fetch import hash_of
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import SPLITS, VideoLists

Rows = list[tuple[Path, int]]  # files and classes of videos


@torch.no_grad()
def compute_features(
    cfg: Config, model: nn.Module, lists: VideoLists, folder: Path, kinds: Sequence[str]
) -> None:
    """Compute the features that are not in a folder yet, of the center view of each video.

    Args:
        cfg: Config of the model, with the weights ``load_from``.
        model: Recognizer with a ``VideoTransformer`` or preset, in evaluation mode.
        lists: Lists of one class a video.
        folder: Folder of the features, ``KIND/PATH_OF_VIDEO.npy``.
        kinds: ``'vectors'`` (D,), averaged over the tokens if the backbone leaves that to its head;
            ``'tokens'`` (T H W, D).

    Raises:
        FileExistsError: If the folder has features of other weights or settings.
    """
    base, backbone = cfg.load_from, model.backbone
    settings = {"base": hash_of(Path(base)) if Path(base).is_file() else base}
    own = {k: v for k, v in cfg.model.backbone.items() if k not in ("pool", "frozen_stages")}
    settings |= {"pipeline": repr(inference_transforms(cfg, 1)), "backbone": repr(own)}
    pixels = cfg.model.get("data_preprocessor") or {}
    settings["pixels"] = repr([pixels.get(key) for key in ("mean", "std")])
    for kind in kinds:
        pool = {"pool": backbone.pool} if kind == "vectors" else {}
        check_settings(folder / kind, settings | pool)
    videos = dict.fromkeys(video for split in SPLITS for video, _ in videos_of(lists, split))
    pipeline = VideoPipeline(cfg, 1)
    for video in tqdm(videos, unit="video", disable=None):
        targets = {kind: target_of(video, lists.root, folder / kind) for kind in kinds}
        if all(target.exists() for target in targets.values()):
            continue
        try:
            clips = pipeline.read(pipeline.open(video))["inputs"]
        except (OSError, ValueError) as error:
            tqdm.write(f"left out: {error}", file=sys.stderr)
            continue
        grid, cls = backbone.forward_features(normalize(model, clips))
        vector = backbone.pool_features(grid, cls)
        vector = vector.flatten(1, -2).mean(dim=1) if vector.dim() == 5 else vector
        found = {"vectors": vector, "tokens": backbone.fc_norm(grid).flatten(1, 3)}
        for kind, target in targets.items():
            write_features(target, found[kind][0].float().cpu().numpy())


def videos_of(lists: VideoLists, split: str) -> Rows:
    """Return path and class of each video of a list; of ``val`` if ``test`` is empty."""
    split = "val" if split == "test" and not lists.counts["test"] else split
    file, tab = lists.root / f"{split}.txt", lists.delimiter
    rows = read_list(file, tab) if lists.counts[split] else []
    return [(lists.root / path, int(text.strip().rpartition(tab)[2])) for text, path in rows]


def files_of(lists: VideoLists, split: str, folder: Path) -> Rows:
    """Return file of features and class of each video of a list that could be read."""
    rows = videos_of(lists, split)
    files = [(target_of(video, lists.root, folder), label) for video, label in rows]
    return [(file, label) for file, label in files if file.exists()]


def load(rows: Rows) -> tuple[Tensor, Tensor]:
    """Read features (N, ...) and classes (N,)."""
    features, labels = default_collate([(np.load(file), label) for file, label in rows])
    return features, labels
