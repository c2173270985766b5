"""What a checkpoint contains beside its weights, read, and written for HuggingFace."""

import re
from collections.abc import Mapping
from contextlib import suppress

import yaml

from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.labels import read_labels
from mmvidformer.checkpoints.published import Published

CLASSIFIER = "cls_head.fc_cls.bias"


def read_info(meta: Mapping, row: Published | None = None) -> dict:
    """Read the known properties of the data that a model was trained on.

    Args:
        meta: ``meta`` of a checkpoint (``convert.io``): this package's or MMEngine's, or that of
            HuggingFace's ``config.json`` and ``preprocessor_config.json``; with ``cfg``, the
            settings of the official code of TimeSformer.
        row: Row of the table of published checkpoints, for what ``meta`` does not contain.

    Returns:
        The known ones of ``dataset_meta`` (with ``classes``, as MMEngine's runner writes them),
        ``mean`` and ``std`` of pixels from 0 to 255 by channel, and ``frame_interval``.
    """
    info = {key: meta[key] for key in ("mean", "std", "frame_interval") if key in meta}
    names = class_names(meta)
    if "id2label" in meta:
        names = [label for _, label in sorted((int(i), n) for i, n in meta["id2label"].items())]
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


def huggingface_config(result: Conversion, settings: Mapping) -> dict:
    """Make the ``config.json`` of a model for video classification.

    ``settings`` are arguments of this package's model (``convert.own``). The names of the classes
    are used if there are as many as classes.

    Raises:
        ValueError: If the number of heads is unknown, or HuggingFace's model cannot have it or the
            size of the frames.
    """
    arch, (height, width), head = settings["arch"], settings["img_size"], result.head
    if "num_heads" not in arch:
        raise ValueError("the checkpoint does not contain the number of heads; give num_heads")
    if head and head["num_heads"] != arch["num_heads"]:
        raise ValueError(
            "HuggingFace's classifier has as many heads as the encoder, "
            f"{arch['num_heads']}; this one has {head['num_heads']}"
        )
    if height != width and result.scheme != "spacetime":
        raise ValueError(f"HuggingFace's model needs square frames, got {height} x {width}")
    side = height if height == width else [height, width]
    tubelet, frames = settings["stem"]["tubelet"], settings.get("clip_len", 1)
    patch = dict(patch_size=tubelet[-1], tubelet_size=tubelet[0])
    mean, depth = settings.get("fc_norm") is not None, head.get("depth", 3)
    clip = dict(crop_size=side, frames_per_clip=frames, mlp_ratio=arch["mlp_ratio"])
    attention = dict(attention_type=settings.get("scheme"), hidden_act="gelu")
    kind, own = {
        "spacetime": ("Vivit", dict(tubelet_size=list(tubelet), hidden_act="gelu_fast")),
        "videomae": ("VideoMAE", dict(patch, use_mean_pooling=mean)),
        "vjepa2": ("VJEPA2", dict(patch, **clip, num_pooler_layers=depth)),
    }.get(result.scheme or "", ("Timesformer", dict(attention, patch_size=tubelet[-1])))
    norm, plain = settings.get("norm", "layer"), result.scheme == "vjepa2" and not head
    count, labels = len(result.state.get(CLASSIFIER, ())), class_names(result.info)
    labels = labels if len(labels) == count else [f"LABEL_{i}" for i in range(count)]
    return dict(
        architectures=[f"{kind}{'Model' if plain else 'ForVideoClassification'}"],
        model_type=kind.lower(),
        hidden_size=arch["embed_dims"],
        num_hidden_layers=arch["depth"],
        num_attention_heads=arch["num_heads"],
        intermediate_size=int(arch["embed_dims"] * arch["mlp_ratio"]),
        image_size=side,
        num_frames=frames,
        layer_norm_eps=1e-6 if isinstance(norm, str) else norm["eps"],
        **({"id2label": {str(i): label for i, label in enumerate(labels)}} if labels else {}),
        **({"label2id": {label: i for i, label in enumerate(labels)}} if labels else {}),
        **own,
    )


def processor_config(settings: Mapping, info: Mapping) -> dict:
    """Make the ``preprocessor_config.json``; empty if ``info`` has no pixel statistics."""
    if "mean" not in info:
        return {}
    (height, width), vivit = settings["img_size"], "rope" not in settings and "pool" in settings
    return dict(
        image_processor_type="VivitImageProcessor" if vivit else "VideoMAEImageProcessor",
        size={"shortest_edge": max(height, width) * 8 // 7 if vivit else height},
        crop_size={"height": height, "width": width},
        rescale_factor=1 / 255,
        offset=False,
        image_mean=[value / 255 for value in info["mean"]],
        image_std=[value / 255 for value in info["std"]],
    )
