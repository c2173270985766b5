"""Settings that have to agree: of the clips, the classes, the batch and the weights."""

import re
from collections.abc import Iterable, Mapping

from mmengine.config import Config
from mmengine.dataset import DefaultSampler
from mmengine.dist import get_world_size
from mmengine.runner import Runner
from torch import nn

from mmvidformer.config import clip_shape, frame_size
from mmvidformer.engine.preflight.samples import Problems, classes_of, is_known

SOURCES = ("init_cfg", "init_from", "pretrained", "checkpoint")  # of a backbone's weights


def names_side(name: str) -> bool:
    """Whether the name of a class has another meaning in a mirror, as 'turn left' has."""
    found = re.search(r"(?<![a-z])(left|right)(?![a-z])|clockwise", name.lower())
    return bool(found or re.search(r"(Left|Right)(?![a-z])", name))


def mirrors(kind: str, direction: str = "horizontal") -> bool:
    """Whether a transform, by the name of its class, flips frames left to right."""
    return "Flip" in kind and "Vertical" not in kind and direction == "horizontal"


def _steps(dataset: object, model: nn.Module) -> list:
    """Transforms of the pipeline and, in training, of the device."""
    steps = [*getattr(getattr(dataset, "pipeline", None), "transforms", ())]
    device = getattr(getattr(model, "data_preprocessor", None), "augment", ())
    return [*steps, *(() if getattr(dataset, "test_mode", False) else device)]


def check_clips(dataset: object, model: nn.Module, cfg: Config) -> Problems:
    """Compare the clips of a pipeline, as far as it fixes them, with tubelets and backbone."""
    embed = getattr(getattr(model, "backbone", None), "embed", None)
    if not hasattr(embed, "tubelet"):
        return
    steps = _steps(dataset, model)
    settings = [{"type": type(step).__name__, **vars(step)} for step in steps]
    frames = [one["clip_len"] for one in settings if isinstance(one.get("clip_len"), int)]
    clip = (*(frames[-1:] or (0,)), *(frame_size(settings) or (0, 0)))  # 0 if unknown
    what = f"clips are {_by(clip)} (frames, height, width)"
    rest = any(n % side for n, side in zip(clip, embed.tubelet, strict=True))
    if rest and tuple(embed.stride) == tuple(embed.tubelet):
        problem = f"{what}, but must be a multiple of the tubelet {_by(embed.tubelet)}"
        yield is_known(dataset, *steps), problem
    elif any(n not in (0, m) for n, m in zip(clip, clip_shape(cfg)[1:], strict=True)):
        made_for = f"model.backbone is made for {_by(clip_shape(cfg)[1:])}"
        yield False, f"{what}, {made_for} and will resize its positions"


def _by(sizes: Iterable[int]) -> str:
    return " x ".join(str(size or "?") for size in sizes)


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
        yield is_known(head, *parts), f"{what}, got {given.pop()}"
    sided = {number for number, name in enumerate(names) if names_side(name)}
    for step in _steps(dataset, model):
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
