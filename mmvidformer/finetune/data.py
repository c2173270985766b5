"""The videos of a fine-tuning config, as fragments."""

from mmvidformer.registry import DATASETS  # isort: skip  (repairs MMAction2 first)

from typing import Any

from mmaction.datasets import VideoDataset
from mmengine.config import Config

from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.config.building import building
from mmvidformer.config.fragments import Change, Fragment, replace, without
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.engine.pipelines import classes_fragment
from mmvidformer.engine.preflight.checks import mirrors, names_side
from mmvidformer.errors import UserError
from mmvidformer.finetune.settings import Recipe
from mmvidformer.tasks.table import find_task


def use_lists(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Let the dataloaders read your lists, with the pipelines of the config.

    If the list ``test`` is empty, testing reads ``val``; if ``val`` is empty, there is no
    validation. Wrappers such as ``RepeatDataset`` are left out.

    Raises:
        UserError: If the config does not read lists of videos with one label each.
    """
    fragment: Fragment = {}
    notes = []
    task = find_task(recipe.task)
    for split, word in zip(SPLITS, ("training", "validation", "test"), strict=True):
        dataset = _find_dataset(cfg, split)
        source = split
        if split == "test" and not lists.counts["test"] and lists.counts["val"]:
            source = "val"
        file = task.list_file(lists.root, source)
        if not lists.counts[source]:
            notes.append(f"no {word}: {file.name} is empty")
            if split != "test":  # whose pipeline prepares the videos of other commands, too
                fragment |= without_split(split)
                continue
        values = dict(
            ann_file=str(file), data_prefix={"video": str(lists.root)}, delimiter=lists.delimiter
        )
        loader = cfg[f"{split}_dataloader"]
        fragment[f"{split}_dataloader"] = replace(loader, "dataset", {**dataset, **values})
        if source != split:
            empty = task.list_file(lists.root, split).name
            notes.append(f"{empty} is empty: mmvidformer test will read {file.name}")
    steps = _augmentations(cfg)
    if any(step.get("label_map") for step in steps):
        notes.append("flips no longer swap the classes of the config's own data")
    if steps:
        augment = [without(step, "label_map") for step in steps]
        fragment["model"] = {"data_preprocessor": {"augment": augment}}
    return fragment, notes


def without_split(split: str) -> Fragment:
    """Return the fragment of a config that has no validation, or no test."""
    fragment: Fragment = {f"{split}_{part}": None for part in ("cfg", "dataloader", "evaluator")}
    if split == "val":
        fragment["default_hooks"] = {"checkpoint": {"save_best": None}}
    return fragment


def name_classes(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Set the classes, or the values."""
    find_task(recipe.task).check_classes(lists.classes)
    return classes_fragment(cfg, lists.classes), []


def remove_flips(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Leave out horizontal flips of training if the name of a class has a side, such as 'left'."""
    sided = [name for name in lists.classes if names_side(name)]
    if not sided:
        return {}, []
    augment, pipeline = _augmentations(cfg), cfg.train_dataloader.dataset.pipeline
    kept_augment = [step for step in augment if not _mirrors(step)]
    kept_pipeline = [step for step in pipeline if not _mirrors(step)]
    if len(kept_augment) + len(kept_pipeline) == len(augment) + len(pipeline):
        return {}, []
    fragment: Fragment = {"train_dataloader": {"dataset": {"pipeline": kept_pipeline}}}
    if augment:
        fragment["model"] = {"data_preprocessor": {"augment": kept_augment}}
    return fragment, [f"horizontal flips are removed: class {sided[0]!r} names a side"]


def _find_dataset(cfg: Config, split: str) -> dict[str, Any]:
    """Return the dataset of a split, which reads videos with one class each."""
    loader = cfg.get(f"{split}_dataloader")
    if not loader:
        model_type = type_name(cfg.model)
        raise UserError(f"the config, of a {model_type}, must have a {split}_dataloader")
    dataset = next(leaf_datasets(loader.dataset))
    with building(cfg):
        dataset_class = DATASETS.get(dataset.type)
    if dataset_class is None or not issubclass(dataset_class, VideoDataset):
        wanted = "a VideoDataset, with one class per video"
        raise UserError(f"the config must read {wanted}, got {dataset.type}")
    return dataset


def _augmentations(cfg: Config) -> list[dict[str, Any]]:
    """Return the transforms of batches on the device."""
    return (cfg.model.get("data_preprocessor") or {}).get("augment") or []


def _mirrors(step: dict[str, Any]) -> bool:
    return mirrors(type_name(step), step.get("direction", "horizontal"))
