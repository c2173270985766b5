"""What a checkpoint contains beside its weights: class names, pixel statistics, sampling."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from mmvidformer.convert.published import Published
from mmvidformer.labels import read_labels


@dataclass
class Info:
    """What is known of the data that a model was trained on. None: unknown.

    Args:
        classes: Class names.
        mean: Mean of the pixels of each channel, from 0 to 255.
        std: Standard deviation of them.
        frame_interval: Frames of the video from one frame of a clip to the next.
    """

    classes: list[str] | None = None
    mean: list[float] | None = None
    std: list[float] | None = None
    frame_interval: int | None = None

    def to_meta(self) -> dict:
        """Return it as part of ``meta``; class names are where MMEngine's runner puts them."""
        meta = {key: value for key, value in vars(self).items() if value is not None}
        names = meta.pop("classes", None)
        return meta | ({"dataset_meta": {"classes": names}} if names else {})


def read_info(meta: Mapping, row: Published | None = None) -> Info:
    """Read it from ``meta`` of a checkpoint (``convert.io``), and from the table of published ones.

    ``meta`` may be this package's or MMEngine's, that of HuggingFace's ``config.json`` and
    ``preprocessor_config.json``, or the settings of the official code of TimeSformer.
    """
    info = Info(**{key: meta[key] for key in ("mean", "std", "frame_interval") if key in meta})
    names = (meta.get("dataset_meta") or {}).get("classes")
    if "id2label" in meta:
        labels = {int(number): label for number, label in meta["id2label"].items()}
        named = [label for _, label in sorted(labels.items())]
        names = None if all(re.fullmatch(r"LABEL_\d+", label) for label in named) else named
    info.classes = list(names) if isinstance(names, list | tuple) and names else None
    if "image_mean" in meta and "image_std" in meta:
        scale = meta.get("rescale_factor", 1 / 255) if meta.get("do_rescale", True) else 1
        means, stds = meta["image_mean"], meta["image_std"]
        if not meta.get("do_normalize", True):
            means, stds = [0.0] * 3, [1.0] * 3
        shift = 1 if meta.get("offset") else 0
        info.mean = [round((value + shift) / scale, 4) for value in means]
        info.std = [round(value / scale, 4) for value in stds]
    data = meta.get("DATA") or {}
    if "MEAN" in data and "STD" in data:
        info.mean, info.std = ([round(255 * v, 4) for v in data[key]] for key in ("MEAN", "STD"))
    info.frame_interval = data.get("SAMPLING_RATE", info.frame_interval)
    if row:
        if row.classes and info.classes is None:
            info.classes = read_labels(row.classes)
        if row.pixels and info.mean is None:
            info.mean, info.std = ([value] * 3 for value in row.pixels)
    return info


def official_settings(text: str) -> dict:
    """Read the settings that the official code of TimeSformer saves as ``cfg``; only ``DATA``."""
    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return {"DATA": settings["DATA"]} if isinstance(settings, dict) and "DATA" in settings else {}
