import mmvidformer.registry  # noqa: F401  isort: skip  (repairs MMAction2 first)

import ast
import multiprocessing
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from traceback import walk_stack

import numpy as np
from mmaction.datasets import RawframeDataset, VideoDataset
from mmengine.dataset import BaseDataset, DefaultSampler
from mmengine.dist import get_world_size
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import DataLoader

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.data.epic_kitchens import SegmentDataset
from mmvidformer.data.image_folder import ImageFolderDataset
from mmvidformer.data.labels import label_table
from mmvidformer.data.listed_videos import ListedVideoDataset
from mmvidformer.video.errors import PATH_KEYS, path_of, with_suffix

Problems = Iterator[tuple[bool, str]]  # whether it is an error, and its description
LISTS = (VideoDataset, RawframeDataset)  # whose samples are the lines of a file
MOST_FILES = 1000  # that are looked at
UNLABELED = -1  # MMAction2's label of a line that has none
SOURCES = ("init_cfg", "init_from", "pretrained", "checkpoint")  # of a backbone's weights


def classes_of(model: nn.Module) -> dict[str, int]:
    """Return the number of classes of each task of a recognizer; empty if it is unknown."""
    head = getattr(model, "cls_head", None)
    counts = getattr(head, "tasks", None) or dict(num_classes=getattr(head, "num_classes", None))
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def check_samples(
    dataset: object, model: nn.Module, split: str, policy: SafeDataset | None
) -> Problems:
    """Check a dataset of videos, frames or images: all labels, and some of the files.

    A policy may allow some missing files.
    """
    if not isinstance(dataset, (*LISTS, SegmentDataset, ImageFolderDataset)):
        return
    if not len(dataset):
        yield True, f"{split}_dataloader: {dataset.ann_file} names no video"
        return
    labels = label_table(dataset)

    def at(item: int) -> str:
        is_line = type(dataset) in (*LISTS, ListedVideoDataset) and dataset._indices is None
        place = f"{dataset.ann_file}, {'line' if is_line else 'entry'} {item + 1}"
        return BaseDataset.get_data_info(dataset, item).get("where", place)

    for task, (name, count) in enumerate(classes_of(model).items()):
        is_of_task = dataset.multi_class | (labels.places == task)
        is_wrong = is_of_task & ((labels.classes < 0) | (labels.classes >= count))
        wrong = np.flatnonzero(is_wrong)
        if wrong.size:
            # The first one, but after a line without label, which may be meant.
            first = wrong[np.argmax(labels.classes[wrong] != UNLABELED)]
            item, label = int(labels.samples[first]), labels.classes[first]
            allowed = f"0 to {count - 1} (model.cls_head.{name} is {count})"
            what = f"label must be in {allowed}, got {label}; {len(wrong)} wrong in all"
            yield label != UNLABELED or split == "train", f"{at(item)}: {what}"
    backends = {getattr(step, "io_backend", "disk") for step in dataset.pipeline.transforms}
    if backends - {"disk", "local"}:
        return
    count = min(len(dataset), MOST_FILES)  # at regular intervals
    items = np.linspace(0, len(dataset) - 1, count, dtype=int).tolist()
    if missing := [item for item in items if _is_missing(dataset, item)]:
        resample = policy is not None and policy.on_bad_video == "resample"
        allowed = policy.max_bad_share * len(items) if resample else 0
        path = path_of(BaseDataset.get_data_info(dataset, missing[0]))
        looked = f"{len(items)} files" + " looked at" * (len(items) < len(dataset))
        what = f"{len(missing)} of {looked} are missing or have no frames"
        yield len(missing) > allowed, f"{at(missing[0])}: {what}, the first is {path!r}"


def _is_missing(dataset: BaseDataset, item: int) -> bool:
    """Whether a sample has no file, or no frames. Addresses are not looked up."""
    info = BaseDataset.get_data_info(dataset, item)
    if info.get("total_frames", 1) < 1:
        return True
    stored = info.get("stored_video")
    if stored is not None:
        return not stored.size
    path = next((str(info[key]) for key in PATH_KEYS if info.get(key)), "")
    return bool(path) and "://" not in path and not os.path.exists(with_suffix(path))


def names_side(name: str) -> bool:
    """Whether the name of a class has another meaning in a mirror, as 'turn left' has."""
    side = re.search(r"(?<![a-z])(left|right)(?![a-z])|clockwise", name.lower())
    return bool(side or re.search(r"(Left|Right)(?![a-z])", name))


def mirrors(transform: str, direction: str = "horizontal") -> bool:
    """Whether a transform, by the name of its class, flips frames left to right."""
    return "Flip" in transform and "Vertical" not in transform and direction == "horizontal"


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
        wrong = getattr(head, "answers_parts", False)  # labels are not checked one by one
        yield wrong, f"{what}, but model.cls_head.num_classes is {count}"
    if split != "train":
        return
    blending = getattr(model.data_preprocessor, "blending", None)
    parts = (blending, *getattr(blending, "augments", ()))
    other_counts = {getattr(part, "num_classes", count) for part in parts} - {count}
    takes_labels_as_they_are = getattr(dataset, "multi_class", False)
    if other_counts and not takes_labels_as_they_are:
        what = f"model.data_preprocessor.blending.num_classes must be {count} as in model.cls_head"
        yield True, f"{what}, got {other_counts.pop()}"
    sided = {number for number, name in enumerate(names) if names_side(name)}
    for step in steps_of(dataset, model):
        transform = type(step).__name__
        mapping = getattr(step, "label_map", None) or getattr(step, "flip_label_map", None) or {}
        wrong = {*mapping, *mapping.values()} - (sided if names else {*range(count)})
        if wrong:
            what = f"{transform} changes the class {min(wrong)} in a mirror (label_map)"
            yield False, f"{what}, but it names no side, or the head does not have it"
        if sided and not mapping and mirrors(transform, getattr(step, "direction", "horizontal")):
            what = f"{transform} mirrors clips, but the class {names[min(sided)]!r} names a side"
            argument = "flip_label_map" if hasattr(step, "flip_label_map") else "label_map"
            yield False, f"{what}; set its {argument}, or remove it"


def check_training(runner: Runner, model: nn.Module) -> Problems:
    """Check the batches and the initial weights of training."""
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
    loaded = runner._load_from or getattr(model, "init_cfg", None) or any(map(start.get, SOURCES))
    if 2 * sum(frozen) > len(frozen) and not loaded:
        name = type(backbone).__name__
        yield False, f"{name} (model.backbone) is frozen, but no weights are loaded into it"


def check_loss(model: nn.Module) -> Problems:
    """Check that a loss has a weight for each class."""
    counts = {*classes_of(model).values()}
    weights = getattr(
        getattr(getattr(model, "cls_head", None), "loss_cls", None), "class_weight", None
    )
    if weights is not None and counts and len(weights) not in counts:
        expected = " or ".join(map(str, sorted(counts)))
        what = f"must have a weight for each of {expected} classes, got {len(weights)}"
        yield True, f"model.cls_head.loss_cls.class_weight {what}"


def check_script(loader: DataLoader) -> Problems:
    """Check that dataloader workers, which import the main script, would not start the run too."""
    method = (loader.multiprocessing_context or multiprocessing).get_start_method()
    script = sys.modules["__main__"]
    spec = getattr(script, "__spec__", None)
    is_package = spec is not None and spec.name.endswith("__main__")  # workers leave it out
    if not loader.num_workers or method == "fork" or is_package:
        return
    for frame, line in walk_stack(None):
        code, path = frame.f_code, getattr(script, "__file__", None)
        is_script = frame.f_globals is vars(script) and code.co_name == "<module>"
        if not is_script or code.co_filename != path:
            continue
        conditions = [
            ast.unparse(node.test)
            for node in ast.walk(ast.parse(Path(path).read_bytes()))
            if isinstance(node, ast.If) and node.lineno <= line <= node.end_lineno
        ]
        if not any("__name__" in condition for condition in conditions):
            what = f"{path}, line {line}: the run starts without 'if __name__ == \"__main__\":'"
            # Another condition may serve as well.
            yield not conditions, f"{what} around it, which dataloader workers ({method}) need"
