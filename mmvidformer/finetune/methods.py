"""How much of a model is trained: all, low-rank updates and the head, or the head alone."""

from collections.abc import Mapping
from typing import Any

from mmengine.config import Config

from mmvidformer.engine.loading import build_meta_model

METHODS = ("full", "lora", "attentive", "linear", "knn")
PROBES = METHODS[2:]  # on features that are computed once
KEPT = ("num_classes", "average_clips", "topk")  # arguments of the config's head
FREEZING = ("frozen_stages", "lora")  # arguments of backbones
LORA_RATE = 10  # times the learning rate of all weights, as Schulman 2025 (LoRA Without Regret)


def fitting_methods(cfg: Config, task: str) -> tuple[str, ...]:
    """Return the methods that a model and a task of ``finetune.tasks.TASKS`` allow."""
    if not hasattr(build_meta_model(cfg).backbone, "stages"):
        return ("full",)
    return METHODS if task == "classes" else ("full", "lora", "linear")


def set_method(cfg: Config, task: str, method: str, lora: Mapping[str, Any]) -> list[str]:
    """Freeze the backbone of a config for a task, or nothing, and add what is trained, in place.

    ``lora`` has the arguments of ``layers.linear.add_lora``. Returns log lines.

    Raises:
        ValueError: If model or task do not allow the method.
    """
    given = [key for key in FREEZING if cfg.model.backbone.pop(key, None) not in (None, -1)]
    if method == "full":
        return [f"all weights are trained, without {key} of the config" for key in given]
    backbone = build_meta_model(cfg).backbone
    if method not in (fit := fitting_methods(cfg, task)):
        kind = type(backbone).__name__
        what = f"a VideoTransformer, got {kind}" if fit == ("full",) else f"classes, got {task}"
        raise ValueError(f"{method} needs {what}")
    cfg.model.backbone.frozen_stages = len(backbone.stages()) - 2  # all blocks
    if method == "lora":
        cfg.model.backbone.lora = dict(lora)
        build_meta_model(cfg)  # checks the layers
        return [f"the backbone is frozen, with LoRA of rank {lora['rank']}"]
    if task == "classes":
        head, pool = dict(type="TimeSformerHead"), "mean" if backbone.pool == "none" else None
        if method == "attentive":
            heads = backbone.configs[-1].sizes["num_heads"]
            head, pool = dict(type="mmvidformer.AttentiveHead", num_heads=heads), "none"
        if pool:
            cfg.model.backbone.pool = pool
        kept = {k: v for k, v in cfg.model.cls_head.items() if k in KEPT}
        cfg.model.cls_head = {**head, "in_channels": backbone.embed_dims, **kept}
    return ["the backbone is frozen: only the head is trained"]
