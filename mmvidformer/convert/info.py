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
        """Return it as ``meta``; class names are where MMEngine's runner writes them."""
        meta = {key: value for key, value in vars(self).items() if value is not None}
        names = meta.pop("classes", None)
        return meta | ({"dataset_meta": {"classes": names}} if names else {})


def read_info(meta: Mapping, row: Published | None = None) -> Info:
    """Read it from ``meta`` of a checkpoint (``convert.io``), and from its row in the table.

    ``meta`` is this package's or MMEngine's, that of HuggingFace's ``config.json`` and
    ``preprocessor_config.json``, or has ``cfg``, the settings of the official code of TimeSformer.
    """
    info = Info(**{key: meta[key] for key in ("mean", "std", "frame_interval") if key in meta})
    names = (meta.get("dataset_meta") or {}).get("classes")
    if "id2label" in meta:
        names = [label for _, label in sorted((int(i), n) for i, n in meta["id2label"].items())]
    if isinstance(names, list | tuple) and not all(re.match(r"LABEL_\d", n) for n in names):
        info.classes = list(names)
    pixels, scale = (meta.get("image_mean"), meta.get("image_std")), 1 / 255
    if pixels[0]:
        scale = meta.get("rescale_factor", scale) if meta.get("do_rescale", True) else 1
        pixels = pixels if meta.get("do_normalize", True) else ([0] * 3, [1] * 3)
        pixels = [m + bool(meta.get("offset")) for m in pixels[0]], pixels[1]
    data = _official_data(meta.get("cfg"))
    if data:
        pixels, info.frame_interval = (data.get("MEAN"), data.get("STD")), data.get("SAMPLING_RATE")
    if pixels[0]:
        info.mean, info.std = ([round(v / scale, 4) for v in values] for values in pixels)
    elif row and row.pixels and not info.mean:
        info.mean, info.std = ([value] * 3 for value in row.pixels)
    if row and row.classes:
        info.classes = info.classes or read_labels(row.classes)
    return info


def _official_data(text: object) -> dict:
    try:
        settings = yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError:  # such as the config of an MMEngine run, a program
        return {}
    return (settings.get("DATA") or {}) if isinstance(settings, dict) else {}
