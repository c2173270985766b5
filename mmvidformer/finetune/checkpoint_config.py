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
from mmvidformer.convert.own import settings_of
from mmvidformer.convert.published import row_of
from mmvidformer.engine.loading import build_meta_model, load_weights
from mmvidformer.finetune.recipe import set_classes
from mmvidformer.registry import MODELS

# Backbones whose arguments can be inferred, and the prefix of their configs.
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
    # What averages frames has no weights that depend on their number.
    if settings.get("scheme") in ("space_only", "factorized_encoder"):
        if "backbone.encoders.1.pos_embed.thw" not in result.state:
            settings.pop("clip_len", None)
    if CLASSIFIER not in result.state or not settings:
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
    kind = "ViViT" if "pool" in settings else "TimeSformer"
    if "fixation" in settings:
        kind = "FeatureFixationTransformer"
    prefix = FAMILIES[kind]
    default = signature(MODELS.get(f"mmvidformer.{kind}")).parameters["scheme"].default
    found = {name: get_config(name) for name in list_models() if name.startswith(prefix)}
    bases = {name: cfg for name, cfg in found.items() if type_name(cfg.model.backbone) == kind}
    wanted = settings.get("scheme")
    own = {name: cfg.model.backbone.get("scheme", default) for name, cfg in bases.items()}
    other = {name for name in bases if wanted and own[name] != wanted}
    # What else a config of another scheme sets may belong to that scheme.
    rigid = {name for name in other if "temporal_depth" in bases[name].model.backbone}
    names = sorted(bases.keys() - rigid, key=lambda name: (name in other, len(name), name))
    for name in names:
        changes = ""
        if name in other:
            bases[name].model.backbone.scheme = wanted
            changes = f" --cfg-options model.backbone.scheme={wanted}"
        if _fits(bases[name], result, settings):
            return CheckpointConfig(bases[name], name, changes)
    base = next(name for name in names if "motion" not in name)
    if result.num_heads is None:
        raise ValueError(f"{source} does not contain the number of heads; give num_heads")
    cfg = get_config(base)
    _adapt(cfg, result, settings)
    if not _fits(cfg, result, settings):
        raise ValueError(f"{source} does not determine its model; change {base} by hand")
    return CheckpointConfig(cfg, base, " with another model (--config-out writes it)")


def _fits(cfg: Config, result: Conversion, settings: dict) -> bool:
    """Whether clips, classes, heads and weights of a config are those of a checkpoint."""
    _, frames, *size = clip_shape(cfg)
    found = settings.get("clip_len", frames), settings.get("img_size", tuple(size))
    if found != (frames, tuple(size)):
        return False
    if cfg.model.cls_head.get("num_classes") != len(result.state[CLASSIFIER]):
        return False
    model = build_meta_model(cfg)
    heads = {part.num_heads for part in model.modules() if hasattr(part, "num_heads")}
    same = result.num_heads is None or heads == {result.num_heads}
    return same and not load_weights(model, result.state).misfits()


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
