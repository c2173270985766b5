"""How a shipped config becomes a fine-tuning config: base config + fragments of a recipe.

Each step is a function of a config, the lists and the recipe. It returns a fragment, which
``apply_recipe`` merges, and what to tell about it. No step changes a config.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy

from mmengine.config import Config

from mmvidformer.config import merge_overrides
from mmvidformer.config.fragments import Change, merge
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.finetune.balance import balance_classes
from mmvidformer.finetune.coverage import cover_videos
from mmvidformer.finetune.data import name_classes, remove_flips, use_lists
from mmvidformer.finetune.methods import choose_method, drop_tokens, limit_views
from mmvidformer.finetune.schedule import (
    choose_batch,
    choose_run,
    decay_rates,
    scale_rate,
    stretch_schedule,
)
from mmvidformer.finetune.settings import Recipe
from mmvidformer.finetune.tasks import add_task
from mmvidformer.tasks.table import find_task

UNREAD = ("data_root", "augment")  # variables of shipped configs, whose values are in the others
Step = Callable[[Config, VideoLists, Recipe], Change]

# In this order, as a step reads what those before it set.
DATA_AND_MODEL = (
    use_lists,
    name_classes,
    add_task,
    remove_flips,
    limit_views,
    choose_method,
    drop_tokens,
)
SAMPLES = (cover_videos, balance_classes)
TRAINING = (decay_rates, choose_batch, scale_rate, stretch_schedule, choose_run)


def apply_recipe(
    base: Config,
    lists: VideoLists,
    recipe: Recipe,
    loader_options: Mapping[str, object] | None = None,
) -> tuple[Config, list[str]]:
    """Make the config of a recipe for your videos.

    Args:
        base: Config of a recognizer with one label per video. It is not changed.
        lists: Result of ``tasks.lists.read_task_lists``, for the task.
        recipe: Fine-tuning settings.
        loader_options: Overrides of ``train_dataloader`` by dotted key. They come before the
            length of an epoch, which depends on them, such as on the frames of a clip.

    Returns:
        The config, and log lines of what differs from the base.

    Raises:
        UserError: If the config or the lists do not allow it.
    """
    cfg = copy_without(base, *UNREAD)
    notes = _merge_steps(cfg, DATA_AND_MODEL, lists, recipe)
    merge_overrides(cfg, loader_options)
    notes += _merge_steps(cfg, SAMPLES, lists, recipe)
    of_training = _merge_steps(cfg, TRAINING, lists, recipe)
    if not recipe.is_probe:  # which is trained without them
        notes += of_training
    if recipe.method == "lora":
        build_meta_model(cfg)  # checks the names of the layers
    find_task(recipe.task).write_files(lists)
    return cfg, notes


def _merge_steps(
    cfg: Config, steps: Sequence[Step], lists: VideoLists, recipe: Recipe
) -> list[str]:
    """Merge what steps change, in place, and return their log lines."""
    notes: list[str] = []
    for step in steps:
        fragment, lines = step(cfg, lists, recipe)
        merge(cfg, fragment)
        notes += lines
    return notes


def copy_without(base: Config, *names: str) -> Config:
    """Copy a config without some of its variables."""
    values = {name: value for name, value in base.items() if name not in names}
    return Config(deepcopy(values), cfg_text=base.text, filename=base.filename)
