"""The config of a checkpoint: a shipped one, or one made for it."""

from inspect import signature
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config

from mmvidformer.config import clip_shape, get_config, list_models, pipelines, type_name
from mmvidformer.convert import read_model
from mmvidformer.convert.formats import CLASSIFIER
from mmvidformer.convert.info import class_names
from mmvidformer.convert.keymap import Conversion
from mmvidformer.convert.own import IGNORED, settings_of
from mmvidformer.convert.published import row_of
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.finetune.recipe import set_classes
from mmvidformer.registry import MODELS

# Backbones whose arguments can be known, and the prefix of their configs.
FAMILIES = {
    "TimeSformer": "timesformer_",
    "ViViT": "vivit_",
    "FeatureFixationTransformer": "feature_fixation_",
}


class CheckpointConfig(NamedTuple):
    """A config for a checkpoint, the shipped config that it is or is made from, and its changes.

    ``changes`` describes what differs from the shipped config, as arguments of a tool.
    """

    cfg: Config
    name: str
    changes: str = ""


def config_of_checkpoint(source: str | Path, num_heads: int | None = None) -> CheckpointConfig:
    """Find the shipped config that a checkpoint belongs to, or make a config for it.

    Clips, pixels and classes are those of the checkpoint, as far as they are known. A made config
    takes all other settings, such as the schedule, from a shipped config of the same family.

    Args:
        source: Checkpoint or its address (``convert.read_model``).
        num_heads: Number of attention heads, if the checkpoint does not contain it.

    Raises:
        OSError: If there is no such checkpoint.
        ValueError: If it does not determine a model: it is recurrent, or has no classifier.
    """
    row = row_of(source)
    _, result = read_model(source)
    result.num_heads = result.num_heads or num_heads
    settings = settings_of(result)
    if CLASSIFIER not in result.state or "backbone.embed.proj.weight" not in result.state:
        raise ValueError(f"{source} has no backbone and classifier that determine a config")
    if row and row.config:
        found = CheckpointConfig(get_config(row.config), row.config)
    else:
        found = _search(result, settings, source)
    given, changes = found.cfg.model.data_preprocessor, found.changes
    for key in ("mean", "std"):
        wanted = result.info.get(key)
        if wanted and list(given[key]) != wanted:
            given[key] = wanted
            if "--config-out" not in changes:
                changes = changes or " --cfg-options"
                changes += f" model.data_preprocessor.{key}={str(wanted).replace(' ', '')}"
    return found._replace(changes=changes)


def _search(result: Conversion, settings: dict, source: str | Path) -> CheckpointConfig:
    known = [result.model] if result.model in FAMILIES else [*FAMILIES]
    prefixes = tuple(FAMILIES[kind] for kind in known)
    found = {name: get_config(name) for name in list_models() if name.startswith(prefixes)}
    bases = {name: cfg for name, cfg in found.items() if type_name(cfg.model.backbone) in known}
    other = {name for name, cfg in bases.items() if result.scheme not in (None, _scheme_of(cfg))}
    # What else a config of another scheme sets may belong to that scheme.
    rigid = {name for name in other if "temporal_depth" in bases[name].model.backbone}
    names = sorted(bases.keys() - rigid, key=lambda name: (name in other, len(name), name))
    for name in names:
        changes, cfg = "", bases[name]
        if name in other:
            cfg.model.backbone.scheme = result.scheme
            changes = f" --cfg-options model.backbone.scheme={result.scheme}"
        if _fits(cfg, result):
            return CheckpointConfig(cfg, name, changes)
    if not settings or result.model not in FAMILIES:
        raise ValueError(f"{source} does not contain the arguments of its model; give its config")
    base = next(name for name in names if "motion" not in name)
    if result.num_heads is None:
        raise ValueError(f"{source} does not contain the number of heads; give num_heads")
    cfg = get_config(base)
    _adapt(cfg, result, settings)
    if not _fits(cfg, result):
        raise ValueError(f"{source} does not determine its model; change {base} by hand")
    return CheckpointConfig(cfg, base, " with another model (--config-out writes it)")


def _scheme_of(cfg: Config) -> str:
    backbone = cfg.model.backbone
    default = signature(MODELS.get(backbone.type)).parameters["scheme"].default
    return backbone.get("scheme", default)


def _fits(cfg: Config, result: Conversion) -> bool:
    """Whether the heads and the shapes of all weights of a config are those of a checkpoint."""
    model = build_meta_model(cfg)
    heads = {part.num_heads for part in model.modules() if hasattr(part, "num_heads")}
    same = result.num_heads is None or heads == {result.num_heads}
    own, given = (
        {name: value.shape for name, value in state.items() if not name.startswith(IGNORED)}
        for state in (model.state_dict(), result.state)
    )
    return same and own == given


def _adapt(cfg: Config, result: Conversion, settings: dict) -> None:
    """Give a config the model, the clips and the classes of a checkpoint."""
    size, side = settings.get("img_size"), clip_shape(cfg)[2]
    if size and size[0] != size[1]:
        raise ValueError(f"pipelines of shipped configs crop squares, got {size[0]} x {size[1]}")
    cfg.model.backbone.update(settings, init_from=None)
    cfg.model.cls_head.in_channels = settings["arch"]["embed_dims"]
    count, names = len(result.state[CLASSIFIER]), class_names(result.info)
    names = names if len(names) == count else []
    set_classes(cfg, tuple(names or map(str, range(count))))
    cfg.class_names = names or None
    loaders = (cfg.get(f"{split}_dataloader") or {} for split in ("train", "val", "test"))
    used = chain.from_iterable(pipelines(loader.get("dataset") or {}) for loader in loaders)
    spare = (cfg.get(f"{split}_pipeline") or () for split in ("train", "val", "test"))
    for step in chain.from_iterable([*used, *spare]):
        if step.get("clip_len") is not None:
            step.clip_len = settings.get("clip_len", step.clip_len)
        if result.info.get("frame_interval") and step.get("frame_interval") is not None:
            step.frame_interval = result.info["frame_interval"]
        for key in ("crop_size", "size", "scale", "scale_range", "short_side") if size else ():
            if isinstance(step.get(key), int):
                step[key] = round(step[key] * size[0] / side)
            elif step.get(key) is not None:
                step[key] = tuple(v if v < 0 else round(v * size[0] / side) for v in step[key])
