"""Models created by name as plain modules, and the configs and weights of names."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config
from torch import nn

from mmvidformer.apis.classifier import VideoClassifier
from mmvidformer.apis.names import class_tasks, known_names
from mmvidformer.checkpoints import metadata
from mmvidformer.checkpoints.download import is_address
from mmvidformer.checkpoints.published import PREFIX, Published, by_name, row_of
from mmvidformer.config import check_model, config_name, load_config, pipelines, view_shape
from mmvidformer.engine.model_options import ModelOptions

PUBLISHED = "published"
logger = logging.getLogger("mmvidformer")


def find_model(
    config: str | Path | Config,
    checkpoint: str | None = PUBLISHED,
    options: Mapping[str, object] | None = None,
) -> tuple[Config, str | None]:
    """Find a config and the address of its weights; see ``Recognizer``.

    ``options`` replace options of a config that is named, as ``config.load_config`` does.
    """
    named = isinstance(config, str | Path)
    if is_address(config) or (named and Path(config, "config.json").is_file()):
        from mmvidformer.apis.checkpoint_config import config_of_checkpoint

        cfg = config_of_checkpoint(config).cfg
        cfg.merge_from_dict(dict(options or {}))
        return cfg, str(config)
    if checkpoint == PUBLISHED:
        checkpoint = PREFIX + config_name(getattr(config, "filename", None) or str(config))
    cfg = config if isinstance(config, Config) else load_config(str(config), options)
    check_model(cfg)
    return cfg, checkpoint


def find_model_of(options: ModelOptions) -> tuple[Config, str | None]:
    """Find the config and the weights of a command, by default the published ones."""
    return find_model(options.config, options.checkpoint or PUBLISHED, options.cfg_options)


def create_model(
    model_name: str,
    pretrained: bool = False,
    num_classes: int | Mapping[str, int] | None = None,
    checkpoint_path: str | None = None,
    **kwargs: Any,
) -> VideoClassifier:
    """Create a model as ``timm.create_model`` does: a plain module in training mode, on the CPU.

    Args:
        model_name: Shipped config (``list_models``), config file, or HuggingFace folder or address
            of a checkpoint (``mmvidformer.checkpoints.addresses``), whose config is found or made.
        pretrained: Whether to load the published weights, or those of the address. Otherwise the
            weights are random, or those of ``init_from`` if it is given.
        num_classes: Number of classes, by task if the head has tasks. If it is not that of the
            published weights, the classifier is new. 0: no classifier. Default: the config's.
        checkpoint_path: File or address of weights of this model, in any format.
        **kwargs: Arguments of the backbone that replace those of the config, such as ``arch``
            (``'timm:NAME'`` for an image model), ``init_from``, ``img_size``, ``clip_len``,
            ``drop_path_rate``, ``frozen_stages`` and ``with_cp``.

    Raises:
        KeyError: If there is no such config, or it has no published weights.
        OSError: If the weights do not exist, or cannot be fetched.
        UserError: If the weights do not fit the model.
    """
    from mmvidformer.engine.loading import build_meta_model, load_recognizer  # load MMAction2

    cfg, published = find_model(model_name)
    if "init_from" in cfg.model.backbone or str(kwargs.get("arch")).startswith("timm:"):
        cfg.model.backbone.init_from = None
    cfg.model.backbone.update(kwargs)
    if "arch" in kwargs:
        cfg.model.cls_head.in_channels = build_meta_model(cfg).backbone.embed_dims
    if checkpoint_path and num_classes:
        head = cfg.model.cls_head
        head["tasks" if "tasks" in head else "num_classes"] = num_classes
    if published == model_name and not (pretrained or checkpoint_path):
        logger.warning("the weights of %s are not loaded: give pretrained=True", model_name)
    recognizer = load_recognizer(cfg, checkpoint_path or (published if pretrained else None))
    row = row_of(model_name) if is_address(model_name) else by_name().get(config_name(model_name))
    architecture = row.config if row else config_name(model_name)
    about = {"architecture": architecture, **describe(cfg, recognizer, row)}
    model = VideoClassifier(recognizer, cfg.model.cls_head, about)
    if num_classes not in (None, model.num_classes):
        model.reset_classifier(num_classes)
    return model.train()


def describe(cfg: Config, recognizer: nn.Module, row: Published | None = None) -> dict[str, Any]:
    """Describe the input and the classes of a model, and its published weights, with timm's keys.

    ``input_size`` is (3, T, H, W), and ``frame_interval`` the distance of the T frames. ``mean``
    and ``std`` are those of pixels from 0 to 1, whose order is ``channels``.
    """
    pixels, tasks = cfg.model.get("data_preprocessor") or {}, class_tasks(cfg)
    count = next(iter(tasks.values())) if len(tasks) == 1 else tasks
    names = known_names(cfg, recognizer) or metadata.class_names(metadata.read_info({}, row))
    used = pipelines((cfg.get("test_dataloader") or {}).get("dataset", {}))
    intervals = (t.frame_interval for steps in used for t in steps if "frame_interval" in t)
    address = row.address if row else ""
    of_pixels: dict[str, tuple[float, ...]] = {}
    for key in ("mean", "std"):
        if key in pixels:
            of_pixels[key] = tuple(value / 255 for value in pixels[key])
    description = {
        "url": address if address.startswith("http") else None,
        "hf_hub_id": address.removeprefix("hf://") if address.startswith("hf://") else None,
        "license": row.license if row else None,
        "num_classes": count,
        "label_names": tuple(names) if len(names) == count else None,
        "input_size": view_shape(cfg),
        "frame_interval": next(intervals, None),
        **of_pixels,
        "channels": "BGR" if pixels.get("to_rgb") else "RGB",
    }
    return {key: value for key, value in description.items() if value not in (None, "")}
