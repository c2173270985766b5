"""What is trained: all weights, LoRA, or a head on a frozen backbone."""

from copy import deepcopy
from pathlib import Path
from typing import Any

from mmengine.config import Config
from torch import nn

from mmvidformer.config import type_name
from mmvidformer.config.fragments import Change, Fragment, replace, without
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.errors import UserError
from mmvidformer.finetune.frozen_features import change_layers
from mmvidformer.finetune.settings import METHODS, WHOLE, Recipe
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import find_task

KEPT = ("num_classes", "average_clips", "topk")  # arguments of the config's head
ADAPTER_RATIO = 0.25  # of AdaTAD
FREEZING = ("frozen_stages", "lora", "adapter")  # arguments of backbones


def limit_views(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Replace MMAction2's recognizer, which cannot limit the views of a batch."""
    if type_name(cfg.model) != "Recognizer3D":
        return {}, []
    return {"model": {"type": "mmvidformer.MultiViewRecognizer"}}, []


def choose_method(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Freeze the backbone, or nothing, and add what is trained.

    Raises:
        UserError: If the model or the task do not allow the method.
    """
    method, task = recipe.method, find_task(recipe.task)
    config = cfg.model.backbone
    backbone_config = without(config, *FREEZING)
    if method == "full":
        removed = [name for name in FREEZING if config.get(name) not in (None, -1)]
        notes = [f"all weights are trained, without {name} of the config" for name in removed]
        return {"model": replace(cfg.model, "backbone", backbone_config)}, notes
    backbone = build_meta_model(cfg).backbone
    fitting = fitting_methods(cfg, task)
    if method not in fitting:
        what = f"classes, got {task.name}"
        if fitting == ("full",):
            what = f"a VideoTransformer, got {type(backbone).__name__}"
        raise UserError(f"{method} needs {what}")
    blocks = (len(encoder.blocks) for encoder in backbone.encoders)
    backbone_config["frozen_stages"] = sum(blocks)
    note = "the backbone is frozen: only the head is trained"
    head: Fragment = {}
    if method == "lora":
        backbone_config["lora"] = dict(
            rank=recipe.lora_rank, alpha=recipe.lora_alpha, layers=recipe.lora_layers
        )
        note = f"the backbone is frozen, with LoRA of rank {recipe.lora_rank}"
    elif method == "adapter":
        backbone_config["adapter"] = ADAPTER_RATIO
        note = "the backbone is frozen, with an adapter after each block"
    elif recipe.is_probe:
        pool, head_config = _probe_config(cfg, backbone, method)
        backbone_config |= pool
        head = replace(cfg.model, "cls_head", head_config)
    return {"model": {**replace(cfg.model, "backbone", backbone_config), **head}}, [note]


def drop_tokens(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Train on a share of the tokens, and on all of them in the end, if the recipe says so.

    Raises:
        UserError: If the model or its head needs all tokens.
    """
    share = recipe.token_keep
    if share is None:
        return {}, []
    changed = deepcopy(cfg)
    changed.model.backbone.token_keep = share
    build_meta_model(changed)  # checks that it can
    hooks = [*(cfg.get("custom_hooks") or ()), dict(type="mmvidformer.AllTokensHook")]
    note = f"training computes {share:g} of the tokens, and all in the last fifth of the steps"
    return {"model": {"backbone": {"token_keep": share}}, "custom_hooks": hooks}, [note]


def fitting_methods(cfg: Config, task: Task) -> tuple[str, ...]:
    """Return the methods that a model and a task allow."""
    if not hasattr(build_meta_model(cfg).backbone, "encoders"):
        return ("full",)
    return tuple(method for method in METHODS if method in (*WHOLE, "linear", *task.probes))


def resumed_method(path: Path) -> str:
    """Return the method of a run by the config that ``finetune`` wrote for it.

    Raises:
        UserError: If the run was one on frozen features.
    """
    backbone = Config.fromfile(path).model.backbone
    for method in ("lora", "adapter"):
        if backbone.get(method):
            return method
    if "frozen_stages" in backbone:
        raise UserError(f"--resume goes on with training; {path} is of a head on frozen features")
    return "full"


def _probe_config(
    cfg: Config, backbone: nn.Module, method: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what changes in the backbone, and the head, of a classifier on features."""
    kept = {name: value for name, value in cfg.model.cls_head.items() if name in KEPT}
    kept["in_channels"] = backbone.embed_dims
    if method == "attentive":
        heads = backbone.configs[-1].sizes["num_heads"]
        return dict(pool="none"), dict(type="mmvidformer.AttentiveHead", num_heads=heads, **kept)
    if method == "temporal":
        layers = change_layers(backbone)
        kept["in_channels"] *= len(layers)
        head_config = dict(type="mmvidformer.ChangeHead", layers=len(layers), **kept)
        return dict(pool="none", out_layers=layers), head_config
    pool = dict(pool="mean") if backbone.pool == "none" else {}
    return pool, dict(type="TimeSformerHead", **kept)
