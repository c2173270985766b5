"""Settings that have to agree: of the classes, the batch and the weights."""

import re
from collections.abc import Mapping

from mmengine.dataset import DefaultSampler
from mmengine.dist import get_world_size
from mmengine.runner import Runner
from torch import nn

from mmvidformer.engine.preflight.samples import Problems, classes_of

SOURCES = ("init_cfg", "init_from", "pretrained", "checkpoint")  # of a backbone's weights


def names_side(name: str) -> bool:
    """Whether the name of a class has another meaning in a mirror, as 'turn left' has."""
    found = re.search(r"(?<![a-z])(left|right)(?![a-z])|clockwise", name.lower())
    return bool(found or re.search(r"(Left|Right)(?![a-z])", name))


def mirrors(kind: str, direction: str = "horizontal") -> bool:
    """Whether a transform, by the name of its class, flips frames left to right."""
    return "Flip" in kind and "Vertical" not in kind and direction == "horizontal"


def steps_of(dataset: object, model: nn.Module) -> list:
    """Transforms of the pipeline and, in training, of the device."""
    steps = [*getattr(getattr(dataset, "pipeline", None), "transforms", ())]
    device = getattr(getattr(model, "data_preprocessor", None), "augment", ())
    return [*steps, *(() if getattr(dataset, "test_mode", False) else device)]


def check_classes(dataset: object, model: nn.Module, split: str) -> Problems:
    """Compare the classes of the head with those of the dataset, of mixup and of flips."""
    if not classes_of(model):
        return
    head, count = model.cls_head, model.cls_head.num_classes
    names = [*(getattr(dataset, "metainfo", {}).get("classes") or ())]
    names = [] if hasattr(head, "tasks") else names
    if names and len(names) != count:
        what = f"{split}_dataloader.dataset has {len(names)} class names"
        yield False, f"{what}, but model.cls_head.num_classes is {count}"
    if split != "train":
        return
    blending = getattr(model.data_preprocessor, "blending", None)
    parts = (blending, *getattr(blending, "augments", ()))
    given = {getattr(part, "num_classes", count) for part in parts} - {count}
    if given and not getattr(dataset, "multi_class", False):  # whose labels it takes as they are
        what = f"model.data_preprocessor.blending.num_classes must be {count} as in model.cls_head"
        yield True, f"{what}, got {given.pop()}"
    sided = {number for number, name in enumerate(names) if names_side(name)}
    for step in steps_of(dataset, model):
        kind = type(step).__name__
        mapping = getattr(step, "label_map", None) or getattr(step, "flip_label_map", None) or {}
        wrong = {*mapping, *mapping.values()} - (sided if names else {*range(count)})
        if wrong:
            what = f"{kind} changes the class {min(wrong)} in a mirror (label_map)"
            yield False, f"{what}, but it names no side, or the head does not have it"
        if sided and not mapping and mirrors(kind, getattr(step, "direction", "horizontal")):
            what = f"{kind} mirrors clips, but the class {names[min(sided)]!r} names a side"
            yield False, f"{what}; set its label_map, or remove it"


def check_training(runner: Runner, model: nn.Module) -> Problems:
    """Check the batches and the initial weights of training, and variables without effect."""
    cfg, loader, ranks = runner.cfg, runner.train_loop.dataloader, get_world_size()
    batch, scale = loader.batch_size or 0, runner.auto_scale_lr or {}
    if isinstance(loader.sampler, DefaultSampler) and not len(loader):
        data = f"{len(loader.dataset)} samples for {ranks} processes"
        yield True, f"train_dataloader has no batch: {data}, batch_size is {batch} with drop_last"
    steps = getattr(runner.optim_wrapper, "_accumulative_counts", 1)
    total, base = batch * ranks * steps, scale.get("base_batch_size")
    if base and total and total != base and not scale.get("enable"):
        what = f"the total batch size is {total} ({batch} x {ranks} processes x {steps} steps)"
        meant = f"{base} (auto_scale_lr.base_batch_size); --auto-scale-lr scales it"
        yield False, f"{what}, but the learning rate is for {meant}"
    if not isinstance(cfg.get("model"), Mapping):
        return
    backbone, start = getattr(model, "backbone", None), cfg.model.get("backbone") or {}
    frozen = [not parameter.requires_grad for parameter in backbone.parameters()] if start else []
    loaded = runner._load_from or model.init_cfg or any(map(start.get, SOURCES))
    if 2 * sum(frozen) > len(frozen) and not loaded:
        kind = type(backbone).__name__
        yield False, f"{kind} (model.backbone) is frozen, but no weights are loaded into it"
    # A child config that sets a variable of its base changes nothing but the variable.
    if str(cfg.get("data_root", "")) not in str(cfg.get("train_dataloader")):
        yield False, f"data_root is {cfg.data_root}, but train_dataloader.dataset does not use it"
    used = (cfg.model.get("data_preprocessor") or {}).get("augment")
    if None not in (used, cfg.get("augment")) and cfg.augment != used:
        yield False, f"augment is {cfg.augment}, but model.data_preprocessor.augment is {used}"
