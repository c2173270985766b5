"""How a config of a recognizer becomes one for masked pretraining on videos without labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmengine.config import Config

from mmvidformer.config import leaf_datasets
from mmvidformer.datasets.own_videos import LabeledVideo, write_lists
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.finetune.recipe import FREEZING, drop_split
from mmvidformer.finetune.settings import RunSettings

BASE_BATCH = 256  # of the learning rate
WARMUP = 0.05  # share of the steps
MAX_BAD_SHARE = 0.5  # of videos that cannot be read; others take their places


@dataclass(frozen=True)
class Pretraining(RunSettings):
    """Settings of masked pretraining; the defaults are VideoMAE's (Tong et al. 2022, table 8)."""

    epochs: int = field(default=800, metadata=dict(type=int, help="number of epochs"))
    batch: int = field(
        default=32,
        metadata=dict(
            type=int, help="batch size per process, at most the number of videos per process"
        ),
    )
    mask_ratio: float = field(
        default=0.9, metadata=dict(type=float, help="share of the places that are masked")
    )
    lr: float = field(
        default=1.5e-4, metadata=dict(type=float, help="learning rate for a total batch of 256")
    )


def apply_pretraining(
    cfg: Config, videos: Sequence[Path], folder: Path, settings: Pretraining
) -> list[str]:
    """Rewrite a config for masked pretraining, without validation and augmentation on the device.

    Args:
        cfg: Config of a recognizer whose backbone is a ``VideoTransformer`` or a preset of it.
            Changed in place.
        videos: Files to train on.
        folder: Where to write the list of them.
        settings: Settings of the run.

    Returns:
        Log lines of what was changed.

    Raises:
        ValueError: If the backbone cannot be pretrained, or there are fewer videos than processes.
    """
    if len(videos) < settings.procs:
        raise ValueError(f"procs must be at most the {len(videos)} videos, got {settings.procs}")
    lists = write_lists([LabeledVideo(v, "none", "train") for v in videos], folder, force=True)
    backbone = cfg.model.backbone
    if backbone.pop("init_from", None) or str(backbone.get("arch")).startswith("timm:"):
        backbone.init_from = None
    for key in FREEZING:
        backbone.pop(key, None)
    preprocessor = dict(cfg.model.get("data_preprocessor") or {})
    for key in ("augment", "blending"):
        preprocessor.pop(key, None)
    cfg.model = dict(
        type="mmvidformer.MaskedPretraining",
        backbone=backbone,
        mask_ratio=settings.mask_ratio,
        data_preprocessor=preprocessor,
    )
    loader = cfg.train_dataloader
    loader.dataset = next(leaf_datasets(loader.dataset))
    loader.dataset.update(
        type="VideoDataset",
        ann_file=str(lists.root / "train.txt"),
        data_prefix={"video": str(lists.root)},
        delimiter=lists.delimiter,
        metainfo=None,
    )
    share = math.ceil(len(videos) / settings.procs)
    loader.update(batch_size=min(settings.batch, share), drop_last=True)
    for split in ("val", "test"):
        drop_split(cfg, split)
    batch = loader.batch_size * settings.procs
    rate = settings.lr * batch / BASE_BATCH
    cfg.auto_scale_lr = dict(enable=False, base_batch_size=batch)
    steps = share // loader.batch_size
    _set_schedule(cfg, rate, settings.epochs, steps)
    settings.apply(cfg)
    cfg.bad_videos = dict(on_bad_video="resample", max_bad_share=MAX_BAD_SHARE)
    cfg.pop("class_names", None)
    whole = ", ".join(dict.fromkeys(build_meta_model(cfg).whole))
    how = f"replaced, not dropped, because of {whole}" if whole else "dropped before the encoder"
    return [
        f"masked tokens are {how}",
        f"{len(videos)} videos; {settings.epochs} epochs of {steps} steps; total batch size "
        f"{batch}",
        f"learning rate {rate:.4g} = {settings.lr:g} x {batch} / {BASE_BATCH}",
    ]


def _set_schedule(cfg: Config, rate: float, epochs: int, steps: int) -> None:
    """Set AdamW, a warm-up and a cosine over epochs of ``steps`` steps."""
    cfg.train_cfg.update(max_epochs=epochs)
    cfg.optim_wrapper = dict(
        type="OptimWrapper",
        optimizer=dict(type="AdamW", lr=rate, betas=(0.9, 0.95), weight_decay=0.05),
        paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
    )
    total = epochs * steps
    warmup = int(total * WARMUP)
    rise = dict(type="LinearLR", start_factor=1e-3, by_epoch=False, begin=0, end=warmup)
    fall = dict(type="CosineAnnealingLR", by_epoch=False, begin=warmup, T_max=total - warmup)
    cfg.param_scheduler = [rise, fall] if warmup > 1 else [fall]
