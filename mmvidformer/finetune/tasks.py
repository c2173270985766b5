"""How a config of one class a video becomes one of another task."""

from mmengine.config import Config

from mmvidformer.config import is_recurrent, type_name
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import spell_task


def set_task(cfg: Config, task: Task, lists: VideoLists) -> list[str]:
    """Merge the fragment of a task into a config, which already reads the lists; returns log lines.

    Raises:
        ValueError: If the model or the pipelines have not what the task needs.
    """
    _state_task(cfg, task)
    if task.needs_places:
        _check_places(cfg, task)
    fragment = task.fragment(cfg, lists)
    if not fragment:
        return []
    task.write_files(lists)
    known = set(cfg.model.get("data_preprocessor") or ())
    cfg.merge_from_dict(fragment)
    left_out = sorted(known - set(cfg.model.get("data_preprocessor") or ()))
    notes = [f"task {task.name}: {cfg.model.cls_head.type}, by {task.best_metric}"]
    return notes + [f"{name} is removed: it does not know these annotations" for name in left_out]


def _state_task(cfg: Config, task: Task) -> None:
    """Let a config state its task, and import the module of one that is in no table."""
    cfg.task = spell_task(task)
    module, colon, _ = cfg.task.partition(":")
    if colon:
        imports = (cfg.get("custom_imports") or {}).get("imports") or []
        cfg.custom_imports = dict(imports=[*imports, module], allow_failed_imports=False)


def _check_places(cfg: Config, task: Task) -> None:
    """Raise a ``ValueError`` if the model is recurrent, or pools the places of a frame."""
    if is_recurrent(cfg):
        raise ValueError(f"{task.name} need a VideoTransformer, got {cfg.model.type}")
    encoders = build_meta_model(cfg).backbone.configs
    if any(encoder.frames == "pool" for encoder in encoders):
        what = f"{type_name(cfg.model.backbone)} pools the places of each frame"
        raise ValueError(f"{task.name} need tokens at several places, but {what}")
