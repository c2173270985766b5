"""Features of a data set's videos."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from torch import nn
from torch.utils.data import DataLoader, Subset

from mmvidformer.config import config_scope
from mmvidformer.registry import DATASETS
from mmvidformer.visualization.recognizer import build_view_pipeline


@dataclass(frozen=True)
class Features:
    """Features of videos.

    Args:
        values: A row a video (N, D).
        labels: Classes (N,), or a class for each task (N, tasks).
    """

    values: np.ndarray
    labels: np.ndarray


def build_split(cfg: Config, split: str, most: int | None = None, seed: int = 0) -> Subset:
    """Videos of a split, each seen in one centre view without augmentation.

    Args:
        cfg: A recognition config.
        split: ``'train'``, ``'val'`` or ``'test'``.
        most: Take that many at random if there are more.
        seed: Of this choice.

    Raises:
        ValueError: If the config has no such split.
    """
    loader = cfg.get(f"{split}_dataloader")
    if not loader:
        raise ValueError(f"the config has no {split}_dataloader")
    settings = {**loader.dataset, "test_mode": True}
    settings["pipeline"] = build_view_pipeline(cfg).transforms
    with config_scope(cfg):
        dataset = DATASETS.build(settings)
    chosen = np.arange(len(dataset))
    if most is not None and most < len(chosen):
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, most, replace=False))
    return Subset(dataset, chosen.tolist())


@torch.no_grad()
def collect_features(
    model: nn.Module,
    videos: Subset,
    batch_size: int = 8,
    workers: int = 0,
    progress: Callable[[Iterable], Iterable] = lambda batches: batches,
) -> Features:
    """Run the backbone of a recogniser over videos.

    Args:
        model: The recogniser, in evaluation mode.
        videos: From ``build_split``.
        batch_size: Videos a batch.
        workers: Processes that read videos.
        progress: Wraps the iteration over batches.

    Returns:
        What the backbone gives to the head, and the labels.
    """
    loader = DataLoader(videos, batch_size, num_workers=workers, collate_fn=pseudo_collate)
    values, labels = [], []
    for batch in progress(loader):
        inputs = model.data_preprocessor(batch, training=False)["inputs"]  # (N, 1, C, T, H, W)
        values.append(model.backbone(inputs.flatten(0, 1)).float().cpu())
        labels += [sample.gt_label for sample in batch["data_samples"]]
    return Features(torch.cat(values).numpy(), torch.stack(labels).squeeze(1).cpu().numpy())
