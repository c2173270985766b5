"""How a config of one class a video becomes one of another task."""

from mmengine.config import Config

from mmvidformer.config import is_recurrent, type_name
from mmvidformer.config.fragments import Change, Fragment, replace
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.errors import UserError
from mmvidformer.finetune.settings import Recipe
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import find_task, spell_task


def add_task(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """State the task in a config, which already reads the lists, and add the task's fragment.

    Raises:
        UserError: If the model or the pipelines have not what the task needs.
    """
    task = find_task(recipe.task)
    if task.needs_places:
        _check_places(cfg, task)
    task_fragment = task.fragment(cfg, lists)
    notes = []
    if task_fragment:
        notes.append(f"task {task.name}: {task.head}, by {task.best_metric}")
        preprocessor = cfg.model.get("data_preprocessor") or {}
        for name in sorted(preprocessor.keys() & task.unaware):
            notes.append(f"{name} is removed: it does not know these annotations")
    return {**_statement(cfg, task), **task_fragment}, notes


def _statement(cfg: Config, task: Task) -> Fragment:
    """State the task, and import the module of one that is in no table."""
    spelling = spell_task(task)
    fragment: Fragment = {"task": spelling}
    module, colon, _ = spelling.partition(":")
    if colon:
        imports = (cfg.get("custom_imports") or {}).get("imports") or []
        values = dict(imports=[*imports, module], allow_failed_imports=False)
        fragment |= replace(cfg, "custom_imports", values)
    return fragment


def _check_places(cfg: Config, task: Task) -> None:
    """Raise a ``UserError`` if the model is recurrent, or pools the places of a frame."""
    if is_recurrent(cfg):
        raise UserError(f"{task.name} need a VideoTransformer, got {cfg.model.type}")
    encoders = build_meta_model(cfg).backbone.configs
    if any(encoder.frames == "pool" for encoder in encoders):
        what = f"{type_name(cfg.model.backbone)} pools the places of each frame"
        raise UserError(f"{task.name} need tokens at several places, but {what}")
