"""How a config of a recognizer becomes one for pretraining on videos without labels."""

import math
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import Config

from mmvidformer.config import leaf_datasets
from mmvidformer.config.fragments import Fragment, merge, replace, without
from mmvidformer.data.list_folders import choose_delimiter
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.errors import UserError
from mmvidformer.finetune.data import without_split
from mmvidformer.finetune.methods import FREEZING
from mmvidformer.finetune.recipe import UNREAD, copy_without
from mmvidformer.finetune.schedule import run_fragment
from mmvidformer.finetune.settings import Pretraining
from mmvidformer.tasks.annotated import write_lines

BASE_BATCH = 256  # of the learning rate
MODELS = {"pixels": "MaskedPretraining", "views": "SigRegPretraining"}
WARMUP = 0.05  # share of the steps
MAX_BAD_SHARE = 0.5  # of videos that cannot be read; others take their places


def apply_pretraining(
    base: Config, videos: Sequence[Path], folder: Path, settings: Pretraining
) -> tuple[Config, list[str]]:
    """Make a config of pretraining, without validation and augmentation on the device.

    Args:
        base: Config of a recognizer whose backbone is a ``VideoTransformer`` or a preset of it.
            It is not changed.
        videos: Files to train on.
        folder: Where to write the list of them.
        settings: Settings of the run.

    Returns:
        The config, and log lines of what differs from the base.

    Raises:
        UserError: If the backbone cannot be pretrained, or there are fewer videos than processes.
    """
    if len(videos) < settings.procs:
        raise UserError(f"procs must be at most the {len(videos)} videos, got {settings.procs}")
    names = [video.absolute().as_posix() for video in videos]
    delimiter = choose_delimiter(names)
    write_lines(folder / "train.txt", [f"{name}{delimiter}0" for name in names])
    share = math.ceil(len(videos) / settings.procs)
    batch_size = min(settings.batch, share)
    total, steps = batch_size * settings.procs, share // batch_size
    rate = settings.lr * total / BASE_BATCH
    cfg = copy_without(base, *UNREAD, "class_names")
    for split in ("val", "test"):
        merge(cfg, without_split(split))
    merge(cfg, {"model": _model_config(cfg, settings)})
    merge(cfg, {"train_dataloader": _loader_config(cfg, folder, batch_size, delimiter)})
    merge(cfg, _schedule_fragment(cfg, rate, settings.epochs, steps))
    merge(cfg, replace(cfg, "auto_scale_lr", dict(enable=False, base_batch_size=total)))
    merge(cfg, run_fragment(cfg, settings))
    bad_videos = dict(on_bad_video="resample", max_bad_share=MAX_BAD_SHARE)
    merge(cfg, replace(cfg, "bad_videos", bad_videos))
    whole = ", ".join(dict.fromkeys(build_meta_model(cfg).whole))
    how = f"replaced, not dropped, because of {whole}" if whole else "dropped before the encoder"
    return cfg, [
        f"masked tokens are {how}",
        f"{len(videos)} videos; {settings.epochs} epochs of {steps} steps; total batch size "
        f"{total}",
        f"learning rate {rate:.4g} = {settings.lr:g} x {total} / {BASE_BATCH}",
    ]


def _model_config(cfg: Config, settings: Pretraining) -> Fragment:
    """Return what replaces the recognizer: its backbone with random weights, none frozen."""
    old_backbone = cfg.model.backbone
    backbone = without(old_backbone, *FREEZING, "init_from")
    # A name of timm's would load its weights.
    if old_backbone.get("init_from") or str(backbone.get("arch")).startswith("timm:"):
        backbone["init_from"] = None
    return dict(
        _delete_=True,
        type=f"mmvidformer.{MODELS[settings.target]}",
        backbone=backbone,
        mask_ratio=settings.mask_ratio,
        data_preprocessor=without(cfg.model.get("data_preprocessor"), "augment", "blending"),
    )


def _loader_config(cfg: Config, folder: Path, batch_size: int, delimiter: str) -> Fragment:
    """Return what changes in the dataloader: it reads the list, without classes."""
    loader = cfg.train_dataloader
    dataset = dict(
        next(leaf_datasets(loader.dataset)),
        type="VideoDataset",
        ann_file=str((folder / "train.txt").absolute()),
        data_prefix={"video": ""},
        delimiter=delimiter,
        metainfo=None,
    )
    return {"batch_size": batch_size, "drop_last": True, **replace(loader, "dataset", dataset)}


def _schedule_fragment(cfg: Config, rate: float, epochs: int, steps: int) -> Fragment:
    """Return AdamW, a warm-up and a cosine over epochs of ``steps`` steps."""
    wrapper = dict(
        type="OptimWrapper",
        optimizer=dict(type="AdamW", lr=rate, betas=(0.9, 0.95), weight_decay=0.05),
        paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
    )
    total = epochs * steps
    warmup = int(total * WARMUP)
    rise = dict(type="LinearLR", start_factor=1e-3, by_epoch=False, begin=0, end=warmup)
    fall = dict(type="CosineAnnealingLR", by_epoch=False, begin=warmup, T_max=total - warmup)
    return {
        "train_cfg": {"max_epochs": epochs},
        "param_scheduler": [rise, fall] if warmup > 1 else [fall],
        **replace(cfg, "optim_wrapper", wrapper),
    }
