"""A recognizer as a folder: weights, config, classes, the reading of videos, and a card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import nn

import mmvidformer
from mmvidformer.apis.checkpoint_config import config_of_checkpoint, config_of_conversion
from mmvidformer.apis.model_card import CARD, Facts, make_card
from mmvidformer.apis.saved_config import KEY, saved_config
from mmvidformer.catalog import MODELS
from mmvidformer.checkpoints.backbones import HUGGINGFACE_MODELS, backbone_arguments
from mmvidformer.checkpoints.formats import convert_checkpoint
from mmvidformer.checkpoints.huggingface import (
    FILES,
    huggingface_config,
    processor_config,
    save_huggingface,
)
from mmvidformer.checkpoints.keymap import Conversion, State
from mmvidformer.checkpoints.metadata import PROBLEMS
from mmvidformer.checkpoints.native import from_native
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.config import clip_shape, type_name
from mmvidformer.config.building import building
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.errors import UserError
from mmvidformer.layers.linear import merge_lora
from mmvidformer.storage.atomic import write_together
from mmvidformer.storage.targets import check_targets
from mmvidformer.tasks.table import DEFAULT, task_of

TOLERANCE = 1e-4  # of logits, relative to the largest or 1
Names = Mapping[str, Sequence[str]]  # of classes, by task


def save_folder(
    cfg: Config,
    model: nn.Module,
    names: Names,
    folder: str | Path,
    facts: Facts,
    force: bool = False,
) -> None:
    """Write a recognizer to a folder, read it again, and compare the weights.

    The weights have the names of transformers' model if that computes the same logits.

    Args:
        cfg: The config.
        model: The recognizer; updates of LoRA are merged.
        names: Class names by task.
        folder: Folder to write; other files in it stay.
        facts: For the card.
        force: Whether files may be replaced.

    Raises:
        FileExistsError: If a file is there already, and not ``force``.
        UserError: If the config has parts of other projects (``saved_config``).
    """
    folder = Path(folder)
    check_targets([(name, folder / name) for name in (*FILES, CARD)], force=force)
    saved = saved_config(cfg, names)
    weights = {
        name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()
    }
    merge_lora(weights)
    theirs = as_huggingface(cfg, model, weights, names)
    checkpoint = theirs or Checkpoint(weights)
    with write_together(folder) as parts:
        config = {
            **checkpoint.meta.get("config", {}),
            KEY: {"version": mmvidformer.__version__, **saved},
        }
        save_huggingface(parts, checkpoint.state, config, checkpoint.meta.get("processor", {}))
        card = make_card(folder.name, Config(saved), model, names, facts, theirs is not None)
        (parts / CARD).write_text(card, encoding="utf-8")
        read = load_recognizer(config_of_checkpoint(parts).cfg, str(parts)).state_dict()
        if wrong := [name for name in weights if not torch.equal(weights[name], read[name])]:
            raise RuntimeError(f"{folder} would hold other weights than the model: {wrong[:3]}")


def as_huggingface(cfg: Config, model: nn.Module, state: State, names: Names) -> Checkpoint | None:
    """Return the weights by the names of transformers, if one of its models computes the same.

    ``meta`` has the ``config`` and the ``processor``.
    """
    if task_of(cfg, model.cls_head).name not in (DEFAULT.name, *PROBLEMS):
        return None
    for scheme, (model_name, *_) in HUGGINGFACE_MODELS.items():
        if model_name != type_name(cfg.model.backbone):
            continue
        try:
            conversion = _describe(cfg, model, state, names, scheme)
            arguments = backbone_arguments(conversion)
            weights = to_other(conversion.state, scheme)
            config = huggingface_config(conversion, arguments)
            processor = processor_config(arguments, conversion.info)
            if _gives_the_logits(cfg, model, Checkpoint(weights, {**processor, **config})):
                return Checkpoint(weights, {"config": config, "processor": processor})
        except UserError:  # it has other parts than theirs
            continue
    return None


def _describe(cfg: Config, model: nn.Module, state: State, names: Names, scheme: str) -> Conversion:
    """Return the weights with what a config of transformers says of a model."""
    conversion = from_native(state, scheme=scheme)
    heads = (part.num_heads for part in model.backbone.modules() if hasattr(part, "num_heads"))
    conversion.num_heads = next(heads, None)
    _, frames, *sides = clip_shape(cfg)
    conversion.settings = dict(clip_len=frames, img_size=tuple(sides))
    of_head, pixels = cfg.model.cls_head, cfg.model.get("data_preprocessor") or {}
    conversion.head = {
        key: of_head[key] for key in ("num_heads", "depth", "norm") if key in of_head
    }
    conversion.info = {key: [*pixels[key]] for key in ("mean", "std") if pixels.get(key)}
    conversion.info["dataset_meta"] = {"classes": next(iter(names.values()))}
    if cfg.get("task"):
        conversion.info["task"] = cfg.task
    return conversion


@torch.no_grad()
def _gives_the_logits(cfg: Config, model: nn.Module, checkpoint: Checkpoint) -> bool:
    """Whether a folder of transformers, with nothing of this package in it, gives the logits."""
    _, conversion = convert_checkpoint(checkpoint, "the folder")
    other = config_of_conversion(conversion, "the folder").cfg
    if clip_shape(other) != clip_shape(cfg):
        return False
    with building(other):
        twin: Any = MODELS.build(other.model).eval()
    twin.load_state_dict(conversion.state, strict=False)
    clip = torch.randn(1, *clip_shape(cfg), generator=torch.Generator().manual_seed(0))
    device = next(model.parameters()).device
    expected = model.cls_head(model.backbone(clip.to(device))).cpu()
    logits = twin.cls_head(twin.backbone(clip))
    scale = expected.abs().max().clamp(min=1)
    is_alike = logits.shape == expected.shape
    return is_alike and bool((logits - expected).abs().max() <= TOLERANCE * scale)
