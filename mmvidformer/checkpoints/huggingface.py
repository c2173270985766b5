"""Writing HuggingFace folders: config.json, preprocessor_config.json and model.safetensors."""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from mmvidformer.atomic import write_atomically
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.metadata import CLASSIFIER, class_names


def save_huggingface(
    folder: str | Path, state: Mapping[str, Tensor], config: Mapping, processor: Mapping
) -> None:
    """Write a HuggingFace folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("config", config), ("preprocessor_config", processor)):
        if content:
            (folder / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    with write_atomically(folder / "model.safetensors") as part:
        save_file(dict(state), part, metadata={"format": "pt"})


def huggingface_config(result: Conversion, settings: Mapping) -> dict:
    """Make the ``config.json`` of a model for video classification.

    ``settings`` are arguments of this package's model (``backbones``). The names of the classes are
    used if there are as many as classes.

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
    model_name, arguments = {
        "spacetime": ("Vivit", dict(tubelet_size=list(tubelet), hidden_act="gelu_fast")),
        "videomae": ("VideoMAE", dict(patch, use_mean_pooling=mean)),
        "vjepa2": ("VJEPA2", dict(patch, **clip, num_pooler_layers=depth)),
    }.get(result.scheme or "", ("Timesformer", dict(attention, patch_size=tubelet[-1])))
    norm, plain = settings.get("norm", "layer"), result.scheme == "vjepa2" and not head
    count, labels = len(result.state.get(CLASSIFIER, ())), class_names(result.info)
    labels = labels if len(labels) == count else [f"LABEL_{i}" for i in range(count)]
    return dict(
        architectures=[f"{model_name}{'Model' if plain else 'ForVideoClassification'}"],
        model_type=model_name.lower(),
        hidden_size=arch["embed_dims"],
        num_hidden_layers=arch["depth"],
        num_attention_heads=arch["num_heads"],
        intermediate_size=int(arch["embed_dims"] * arch["mlp_ratio"]),
        image_size=side,
        num_frames=frames,
        layer_norm_eps=1e-6 if isinstance(norm, str) else norm["eps"],
        **({"id2label": {str(i): label for i, label in enumerate(labels)}} if labels else {}),
        **({"label2id": {label: i for i, label in enumerate(labels)}} if labels else {}),
        **arguments,
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
