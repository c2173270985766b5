"""What a checkpoint contains beside its weights, read, and written for HuggingFace."""

import re
from collections.abc import Mapping
from contextlib import suppress

import yaml

from mmvidformer.checkpoints.labels import read_labels
from mmvidformer.checkpoints.published import Published

CLASSIFIER = "cls_head.fc_cls.bias"
# Tasks of this package, and what HuggingFace's ``config.json`` calls them; one class a video: None.
PROBLEMS = {"labels": "multi_label_classification", "number": "regression"}


def read_info(meta: Mapping, row: Published | None = None) -> dict:
    """Read the known properties of the data that a model was trained on.

    Args:
        meta: ``meta`` of a checkpoint (``reading``): this package's or MMEngine's, or that of
            HuggingFace's ``config.json`` and ``preprocessor_config.json``; with ``cfg``, the
            settings of the official code of TimeSformer.
        row: Row of the table of published checkpoints, for what ``meta`` does not contain.

    Returns:
        The known ones of ``dataset_meta`` (with ``classes``, as MMEngine's runner writes them),
        ``mean`` and ``std`` of pixels from 0 to 255 by channel, ``frame_interval``, and ``task``,
        a key of ``PROBLEMS``.
    """
    info = {key: meta[key] for key in ("mean", "std", "frame_interval", "task") if key in meta}
    for task, problem in PROBLEMS.items():
        # In the config of an MMEngine run, a program, ``finetune`` states the task.
        is_stated = re.search(rf"^task = '{task}'$", str(meta.get("cfg", "")), re.MULTILINE)
        if is_stated or meta.get("problem_type") == problem:
            info["task"] = task
    names = class_names(meta)
    if "id2label" in meta:
        numbers = sorted(meta["id2label"], key=int)
        names = [meta["id2label"][number] for number in numbers]
        names = [] if all(re.match(r"LABEL_\d", name) for name in names) else names
    if row and row.classes and not names:
        names = read_labels(row.classes)
    if names:
        info["dataset_meta"] = {"classes": names}
    means, stds = meta.get("image_mean", ()), meta.get("image_std", ())
    scale, shift = 1 / 255, 0
    if means:
        scale = meta.get("rescale_factor", scale) if meta.get("do_rescale", True) else 1
        shift = int(meta.get("offset", False))
        if not meta.get("do_normalize", True):
            means, stds = [0] * 3, [1] * 3
    # The config of an MMEngine run, a program, has the same name as the settings of TimeSformer.
    with suppress(yaml.YAMLError, KeyError, TypeError, AttributeError):
        data = yaml.safe_load(meta["cfg"])["DATA"]
        means, stds, info["frame_interval"] = data["MEAN"], data["STD"], data["SAMPLING_RATE"]
    if means:
        info["mean"] = [round((value + shift) / scale, 4) for value in means]
        info["std"] = [round(value / scale, 4) for value in stds]
    elif row and row.pixels and "mean" not in info:
        info["mean"], info["std"] = ([value] * 3 for value in row.pixels)
    return info


def class_names(meta: Mapping) -> list[str]:
    """Class names in ``meta`` of a checkpoint; empty if there are none."""
    names = (meta.get("dataset_meta") or {}).get("classes")
    return list(names) if isinstance(names, list | tuple) else []
