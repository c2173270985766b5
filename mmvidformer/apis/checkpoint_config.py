"""The config of a checkpoint: a shipped one, or one made for it."""

from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config

from mmvidformer.apis.saved_config import read_saved_config
from mmvidformer.checkpoints import read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.download import fetch
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.metadata import CLASSIFIER, class_names
from mmvidformer.checkpoints.published import row_of
from mmvidformer.config import clip_shape, get_config, list_models, type_name
from mmvidformer.config.fragments import merge
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.engine.pipelines import classes_fragment, dicts_in
from mmvidformer.errors import UserError
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import DEFAULT, TASKS

# Backbones, or schemes, whose arguments can be known, and the shipped configs that others are made
# from. Configs of a backbone begin with the same word.
BASES = {
    "TimeSformer": "timesformer_b_k400",
    "ViViT": "vivit_fe_k400",
    "FeatureFixationTransformer": "feature_fixation_k400",
    "videomae": "videomae_b_k400",
    "vjepa2": "vjepa2_l_sthv2",
    "videoprism": "videoprism_b_k400",
}
SIZES_OF_HEAD = ("num_classes", "in_channels", "num_heads", "depth", "norm", "pooling")


class CheckpointConfig(NamedTuple):
    """A config for a checkpoint, and the shipped config that it is or, if changed, is made from."""

    cfg: Config
    name: str
    changed: bool


def config_of_checkpoint(source: str | Path, num_heads: int | None = None) -> CheckpointConfig:
    """Find the shipped config that a checkpoint belongs to, or make a config for it.

    Clips, pixels and classes are those of the checkpoint, as far as they are known. A made config
    takes all other settings, such as the schedule, from a shipped config of the same backbone.

    Args:
        source: Checkpoint or its address (``checkpoints.read_model``). A saved folder holds its
            config (``saved_config``).
        num_heads: Number of attention heads, if the checkpoint does not contain it.

    Raises:
        OSError: If there is no such checkpoint.
        UserError: If it does not determine a model: it is recurrent, or has no classifier, or one
            of numbers.
    """
    if saved := read_saved_config(fetch(source)):
        return CheckpointConfig(saved, str(source), False)
    row = row_of(source)
    _, result = read_model(source)
    result.num_heads = result.num_heads or num_heads
    return config_of_conversion(result, source, row.config if row else "")


def config_of_conversion(
    result: Conversion, source: str | Path, shipped: str | None = None
) -> CheckpointConfig:
    """Find or make the config of weights; ``shipped`` is its name, if that is known.

    Raises:
        UserError: As ``config_of_checkpoint``.
    """
    if CLASSIFIER not in result.state or "backbone.embed.proj.weight" not in result.state:
        raise UserError(f"{source} has no backbone and classifier that determine a config")
    model = result.scheme if result.scheme in BASES else result.model
    shipped = shipped or _find_shipped(result, model)
    name, settings = shipped or BASES.get(model), backbone_arguments(result)
    if not name or not (shipped or settings):
        raise UserError(f"{source} does not contain the arguments of its model; give its config")
    if not shipped and result.num_heads is None:
        raise UserError(f"{source} does not contain the number of heads; give num_heads")
    task = TASKS.get(result.info.get("task", DEFAULT.name))
    if task is None or task.heads_by_classifier is None:
        stated = result.info["task"]
        raise UserError(f"{source} answers the task {stated!r}, for which no config is made")
    cfg, changed = get_config(name), not shipped
    if changed:
        _adapt(cfg, result, settings, task)
    for key in {"mean", "std"} & result.info.keys():
        changed |= list(cfg.model.data_preprocessor[key]) != result.info[key]
        cfg.model.data_preprocessor[key] = result.info[key]
    if task.head is not None:
        _exchange_head(cfg, task)
        changed = True
    return CheckpointConfig(cfg, name, changed)


def _find_shipped(result: Conversion, model_name: str) -> str | None:
    """Find the config with the heads and shapes of a checkpoint, of a name in ``BASES`` or none."""
    words = tuple(base.split("_")[0] for name, base in BASES.items() if model_name in (name, ""))
    checkpoint_shapes = {name: value.shape for name, value in result.state.items()}
    for name in sorted(list_models(), key=lambda name: (len(name), name)):
        if not name.startswith(words):
            continue
        cfg = get_config(name)
        if cfg.model.cls_head.get("num_classes") not in (None, len(result.state[CLASSIFIER])):
            continue
        model = build_meta_model(cfg)
        shapes = {key: value.shape for key, value in model.state_dict().items()}
        heads = {part.num_heads for part in model.modules() if hasattr(part, "num_heads")}
        same = shapes == checkpoint_shapes and result.num_heads in (None, *heads)
        same &= result.head.get("num_heads") in (None, cfg.model.cls_head.get("num_heads"))
        if same and result.scheme in (None, model_name, cfg.model.backbone.get("scheme")):
            return name
    return None


def _adapt(cfg: Config, result: Conversion, settings: dict, task: Task) -> None:
    """Give a config the model, the clips and the classes of a checkpoint."""
    size, side = settings.get("img_size"), clip_shape(cfg)[2]
    if size and size[0] != size[1]:
        raise UserError(f"pipelines of shipped configs crop squares, got {size[0]} x {size[1]}")
    cfg.model.backbone.update(settings, init_from=None)
    if "frozen_stages" in cfg.model.backbone:  # all of them
        encoders = settings.get("encoders", [settings["arch"]])
        cfg.model.backbone.frozen_stages = sum(encoder["depth"] for encoder in encoders)
    cfg.model.cls_head.update(result.head, in_channels=settings["arch"]["embed_dims"])
    count, names = len(result.state[CLASSIFIER]), class_names(result.info)
    names = known = names if len(names) == count else []
    names = names or [*map(str, range(count))]
    task.check_classes(names)
    merge(cfg, classes_fragment(cfg, names))
    cfg.class_names = known or None
    for step in dicts_in([part for name, part in cfg.items() if name != "model"]):
        if step.get("clip_len") is not None:
            step.clip_len = settings.get("clip_len", step.clip_len)
        if result.info.get("frame_interval") and step.get("frame_interval") is not None:
            step.frame_interval = result.info["frame_interval"]
        for key in ("crop_size", "size", "scale", "scale_range", "short_side") if size else ():
            if isinstance(step.get(key), int):
                step[key] = round(step[key] * size[0] / side)
            elif step.get(key) is not None:
                step[key] = tuple(v if v < 0 else round(v * size[0] / side) for v in step[key])


def _exchange_head(cfg: Config, task: Task) -> None:
    """Give a config of one class a video the head of another task, which has the same weights."""
    head = cfg.model.cls_head
    sizes = {name: head[name] for name in SIZES_OF_HEAD if name in head}
    head_type = task.heads_by_classifier.get(type_name(head), task.head)
    cfg.model.cls_head = dict(type=head_type, **sizes)
    for name in task.unaware:
        cfg.model.data_preprocessor.pop(name, None)
    cfg.task = task.name
