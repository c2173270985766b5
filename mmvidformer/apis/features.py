"""Features of videos: what a recognizer's backbone gives to its head."""

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Subset
from tqdm import tqdm

from mmvidformer.apis.pipeline import inference_transforms, normalize
from mmvidformer.config import config_scope, leaf_datasets
from mmvidformer.registry import DATASETS


@torch.no_grad()
def backbone_features(
    model: nn.Module, clips: Tensor, tokens: bool = False, batch_size: int = 4
) -> Tensor:
    """Run the backbone of a recognizer on clips.

    Args:
        model: A recognizer with ViViT, TimeSformer or FeatureFixationTransformer, in evaluation
            mode.
        clips: Clips (N, C, T, H, W) of a pipeline.
        tokens: Whether to return the encoder's tokens instead of one vector per clip.
        batch_size: Number of clips per forward pass.

    Returns:
        Features (N, D), averaged over the tokens if the backbone leaves that to its head; or
        tokens (N, T, H, W, D). On the CPU, float32.

    Raises:
        ValueError: If the model has another backbone.
    """
    if not hasattr(model.backbone, "forward_features"):
        raise ValueError(f"{type(model.backbone).__name__} is not a transformer with features")
    found = []
    for part in normalize(model, clips).split(batch_size):
        features = model.backbone.forward_features(part)[0] if tokens else model.backbone(part)
        if not tokens and features.dim() == 5:
            features = features.mean(dim=(1, 2, 3))
        found.append(features.float().cpu())
    return torch.cat(found)


def build_split(cfg: Config, split: str, most: int | None = None, seed: int = 0) -> Subset:
    """Build the dataset of a split, with one center view per video and no augmentation.

    If there are more videos than ``most``, that many are chosen at random.

    Raises:
        ValueError: If the config has no such split.
    """
    loader = cfg.get(f"{split}_dataloader")
    if not loader:
        raise ValueError(f"the config has no {split}_dataloader")
    changes = {"test_mode": True, "pipeline": inference_transforms(cfg, clips=1)}
    with config_scope(cfg):
        leaves = [DATASETS.build({**leaf, **changes}) for leaf in leaf_datasets(loader.dataset)]
    videos = ConcatDataset(leaves)
    chosen = np.random.default_rng(seed).permutation(len(videos))[:most]
    return Subset(videos, np.sort(chosen).tolist())


def split_features(
    model: nn.Module, videos: Subset, batch_size: int = 8, workers: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Features (N, D) of the videos of ``build_split``, and labels (N,) or (N, tasks)."""
    loader = DataLoader(videos, batch_size, num_workers=workers, collate_fn=pseudo_collate)
    values, labels = [], []
    for batch in tqdm(loader, unit="batch", disable=None):
        views = [len(inputs) for inputs in batch["inputs"]]
        features = backbone_features(model, torch.cat(batch["inputs"]), batch_size=batch_size)
        values += [part.mean(dim=0) for part in features.split(views)]
        labels += [sample.gt_label for sample in batch["data_samples"]]
    return torch.stack(values).numpy(), torch.stack(labels).squeeze(1).cpu().numpy()
