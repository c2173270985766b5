"""The table of tasks, and how one is found."""

from importlib import import_module
from typing import Any

from mmengine.config import Config

from mmvidformer.errors import UserError
from mmvidformer.tasks.action_anticipation import ActionAnticipation
from mmvidformer.tasks.action_detection import ActionDetection
from mmvidformer.tasks.action_localization import ActionLocalization
from mmvidformer.tasks.action_segmentation import ActionSegmentation
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.camera_motion import CameraMotion
from mmvidformer.tasks.classification import Classification
from mmvidformer.tasks.event_spotting import EventSpotting
from mmvidformer.tasks.multi_label import MultiLabel
from mmvidformer.tasks.names import FIELD_NAMES
from mmvidformer.tasks.regression import Regression

DEFAULT = Classification()
ANTICIPATION, CAMERA = ActionAnticipation(), CameraMotion()  # which are no tasks of --task
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        DEFAULT,
        MultiLabel(),
        Regression(),
        ActionSegmentation(),
        ActionLocalization(),
        ActionDetection(),
        EventSpotting(),
    )
}


def find_task(name: str) -> Task:
    """Return a task by its name, or as ``'module:Class'`` of another one.

    Its name is ``'frames'``, for example, or what papers call it: ``'action-segmentation'``, also
    with blanks and capitals.

    Raises:
        UserError: If there is none of that name. Other errors of a module are raised unchanged.
    """
    spelling = "-".join(name.lower().split())
    for task_name, field_names in FIELD_NAMES.items():
        if spelling in (task_name, *field_names):
            return TASKS[task_name]
    module, colon, class_name = name.partition(":")
    if not colon or not module or module.startswith("."):
        known = ", ".join(TASKS)
        raise UserError(f"no task named {name!r}; choose from {known}, or give MODULE:CLASS")
    try:
        imported = import_module(module)
    except ImportError as error:
        raise UserError(f"task {name}: {error}") from error
    if not hasattr(imported, class_name):
        raise UserError(f"task {name}: module {module!r} has no attribute {class_name!r}")
    task_class = getattr(imported, class_name)
    if not (isinstance(task_class, type) and issubclass(task_class, Task)):
        raise UserError(f"task {name}: {class_name} is no subclass of mmvidformer.tasks.base.Task")
    return task_class()


def spell_task(task: Task) -> str:
    """Return the name by which ``find_task`` finds a task."""
    if type(TASKS.get(task.name)) is type(task):
        return task.name
    return f"{type(task).__module__}:{type(task).__qualname__}"


def task_of(cfg: Config, head: Any = None) -> Task:
    """Return the task of a config: the one that it states as ``task``, else that of its head.

    The head that was built, if it is given, says more than its config: the classes it is made from.
    """
    if cfg.get("task"):
        return find_task(cfg.task)
    return task_of_head(cfg.model.get("cls_head") if head is None else head)


def task_of_head(head: Any) -> Task:
    """Return the task that a head, or its config, answers; one class a video if no task says so."""
    for task in (*TASKS.values(), ANTICIPATION, CAMERA):
        if task.fits_head(head):
            return task
    is_config = isinstance(head, dict)
    has_several = head.get("multi_class") if is_config else getattr(head, "multi_class", False)
    return TASKS["labels"] if has_several else DEFAULT  # of heads of MMAction2
