"""The config that a checkpoint belongs to: a shipped one, or one made from it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path

from mmengine.config import Config

from mmvidformer.config import clip_shape, get_config, list_configs, pipelines, type_name
from mmvidformer.convert import read_model
from mmvidformer.convert.formats import CLASSIFIER
from mmvidformer.convert.keymap import Conversion
from mmvidformer.convert.own import settings_of
from mmvidformer.convert.published import row_of
from mmvidformer.engine.loading import build_meta_model, compare_weights
from mmvidformer.finetune.videos import set_classes
from mmvidformer.registry import MODELS

# Backbones whose arguments can be inferred from weights: prefix of their configs, name of the
# argument for the scheme.
FAMILIES = {
    "TimeSformer": ("timesformer_", "attention"),
    "ViViT": ("vivit_", "scheme"),
    "FeatureFixationTransformer": ("feature_fixation_", "attention"),
}


@dataclass
class Fitted:
    """A config for a checkpoint.

    Attributes:
        name: The shipped config that it is, or is made from.
        cfg: The config.
        shipped: Whether it is the shipped config, up to ``overrides``.
        overrides: Changes for ``--cfg-options``: pixel statistics of the checkpoint.
    """

    name: str
    cfg: Config
    shipped: bool = True
    overrides: dict = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.shipped:
            return f"none of the shipped ones fits; --config-out writes one, from {self.name}"
        options = " ".join(f"{k}={str(v).replace(' ', '')}" for k, v in self.overrides.items())
        return self.name + (f" --cfg-options {options}" if options else "")


def fit_config(source: str | Path, num_heads: int | None = None) -> Fitted:
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
    part, settings = settings_of(result)
    if part != "backbone" or CLASSIFIER not in result.state or "arch" not in settings:
        raise ValueError(f"{source} has no backbone and classifier that determine a config")
    if row and row.config:
        fitted = Fitted(row.config, get_config(row.config))
    else:
        fitted = _search(result, settings, source)
    given = fitted.cfg.model.data_preprocessor
    for key in ("mean", "std"):
        wanted = getattr(result.info, key)
        if wanted and list(given[key]) != wanted:
            given[key] = fitted.overrides[f"model.data_preprocessor.{key}"] = wanted
    return fitted


def _search(result: Conversion, settings: dict, source: str | Path) -> Fitted:
    kind = "ViViT" if "tubelet" in settings else "TimeSformer"
    if "fixation" in settings:
        kind = "FeatureFixationTransformer"
    prefix, scheme = FAMILIES[kind]
    default = signature(MODELS.get(f"mmvidformer.{kind}")).parameters[scheme].default
    names = sorted((name for name in list_configs() if name.startswith(prefix)), key=len)
    bases = {}
    for name in names:
        cfg = get_config(name)
        backbone = cfg.model.backbone
        if type_name(backbone) == kind and backbone.get(scheme, default) == settings[scheme]:
            if _fits(cfg, result, settings):
                return Fitted(name, cfg)
            bases[name] = cfg
    base = next((name for name in bases if "motion" not in name), None)
    if base is None:
        raise ValueError(f"no shipped config has the {scheme} {settings[scheme]!r} of {source}")
    if result.num_heads is None:
        raise ValueError(f"{source} does not contain the number of heads; give num_heads")
    _adapt(bases[base], result, settings)
    return Fitted(base, bases[base], shipped=False)


def _fits(cfg: Config, result: Conversion, settings: dict) -> bool:
    """Whether weights, sizes, heads and the number of classes of a config are those of weights."""
    clip = clip_shape(cfg)[1:]
    if clip[0] != settings["clip_len"] or clip[1:] != settings.get("img_size", clip[1:]):
        return False
    if cfg.model.cls_head.get("num_classes") != len(result.state[CLASSIFIER]):
        return False
    model = build_meta_model(cfg)
    heads = {part.num_heads for part in model.modules() if hasattr(part, "num_heads")}
    same = result.num_heads is None or heads == {result.num_heads}
    return same and not compare_weights(model, result.state).misfits()


def _adapt(cfg: Config, result: Conversion, settings: dict) -> None:
    """Give a config the model, the clips and the classes of a checkpoint."""
    size, side = settings.get("img_size"), clip_shape(cfg)[2]
    if size and size[0] != size[1]:
        raise ValueError(f"pipelines of shipped configs crop squares, got {size[0]} x {size[1]}")
    cfg.model.backbone.update(settings, init_from=None)
    cfg.model.cls_head.in_channels = settings["arch"]["embed_dims"]
    count = len(result.state[CLASSIFIER])
    names = result.info.classes or ()
    set_classes(cfg, tuple(names) if len(names) == count else tuple(map(str, range(count))))
    for step in _steps(cfg):
        for key in ("clip_len", "num_frames"):
            if step.get(key) is not None:
                step[key] = settings["clip_len"]
        if result.info.frame_interval and step.get("frame_interval") is not None:
            step.frame_interval = result.info.frame_interval
        for key in ("crop_size", "size", "scale", "scale_range") if size else ():
            if isinstance(step.get(key), int):
                step[key] = size[0]
            elif step.get(key) is not None:
                step[key] = tuple(v if v < 0 else round(v * size[0] / side) for v in step[key])


def _steps(cfg: Config) -> Iterator[dict]:
    for split in ("train", "val", "test"):
        yield from cfg.get(f"{split}_pipeline") or ()
        loader = cfg.get(f"{split}_dataloader") or {}
        for pipeline in pipelines(loader.get("dataset") or {}):
            yield from pipeline
