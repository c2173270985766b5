"""The config in a folder of a saved model: plain data, which runs no code but this package's."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmvidformer.config import pipelines
from mmvidformer.config.rows import with_tuples
from mmvidformer.engine.loading import for_evaluation
from mmvidformer.engine.pipelines import dicts_in
from mmvidformer.errors import UserError
from mmvidformer.storage.files import read_json
from mmvidformer.tasks.table import TASKS

FILE, KEY = "config.json", "mmvidformer"  # the file, and where in it; others leave the key alone
PARTS = ("model", "test_dataloader", "val_dataloader", "task", "class_names")
# Names of parts that anybody's folder may build: this package's, and MMAction2's by its registry.
NAME = re.compile(r"(mmvidformer\.)?\w+")
START = ("init_from", "lora")  # arguments of a backbone, of no use with the weights at hand


def saved_config(cfg: Config, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what a folder says of a config: the model and how videos are read, as plain data.

    Args:
        cfg: The config of a recognizer.
        names: Class names by task.

    Raises:
        UserError: If the config names parts that are neither this package's nor MMAction2's, or
            has values that are no plain data.
    """
    content = cfg.to_dict()
    model = for_evaluation(content["model"])
    model["backbone"] = {
        name: value for name, value in model["backbone"].items() if name not in START
    }
    saved: dict[str, Any] = {"model": model}
    for loader in ("test_dataloader", "val_dataloader"):
        dataset = (content.get(loader) or {}).get("dataset") or {}
        if pipeline := next(pipelines(dataset), None):
            saved[loader] = {"dataset": {"pipeline": pipeline}}
    if cfg.get("task"):
        saved["task"] = cfg.task
    numbers = {task: [*map(str, range(len(labels)))] for task, labels in names.items()}
    if dict(names) != numbers:
        labels = {task: [*labels] for task, labels in names.items()}
        saved["class_names"] = labels if len(labels) > 1 else next(iter(labels.values()))
    saved = json.loads(json.dumps(saved, default=_plain))
    _check_names(saved, "the config")
    return saved


def _plain(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise UserError(f"the config has {value!r}, which a saved folder cannot: it is no plain data")


def read_saved_config(folder: Path) -> Config | None:
    """Read the config of a saved model; None if the folder has none.

    Raises:
        UserError: If it names what a folder may not.
    """
    file = folder / FILE
    if not file.is_file():
        return None
    saved = read_json(file).get(KEY)
    if saved is None:
        return None
    model = saved.get("model") if isinstance(saved, dict) else None
    parts = (
        [model.get(name) for name in ("backbone", "cls_head")] if isinstance(model, dict) else []
    )
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise UserError(f"{file} must have a model with backbone and cls_head under {KEY!r}")
    _check_names(saved, str(file))
    return Config({name: with_tuples(saved[name]) for name in PARTS if name in saved})


def _check_names(value: Mapping[str, Any], source: str) -> None:
    """Raise a ``UserError`` if a config names what its reader would import from elsewhere."""
    for mapping in dicts_in(value):
        name = mapping.get("type", "")
        if not isinstance(name, str) or (name and not NAME.fullmatch(name)) or "_scope_" in mapping:
            raise UserError(
                f"{source} names {mapping.get('_scope_', name)!r}, which a saved folder may not: "
                "its parts are mmvidformer's (mmvidformer.NAME) or MMAction2's (NAME)"
            )
    if value.get("task") not in (None, *TASKS):
        raise UserError(
            f"{source} has the task {value['task']!r}, which a saved folder may not: "
            f"choose from {', '.join(TASKS)}"
        )
