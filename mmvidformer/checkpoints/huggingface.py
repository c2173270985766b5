"""Writing HuggingFace folders: config.json, preprocessor_config.json and model.safetensors."""

import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.metadata import CLASSIFIER, PROBLEMS, class_names
from mmvidformer.checkpoints.writing import save_tensors
from mmvidformer.errors import UserError
from mmvidformer.layers.config import name_of
from mmvidformer.storage.atomic import write_together

FILES = ("config.json", "preprocessor_config.json", "model.safetensors")


def save_huggingface(
    folder: str | Path, state: Mapping[str, Tensor], config: Mapping, processor: Mapping
) -> None:
    """Write a HuggingFace folder."""
    *names, weights = FILES
    with write_together(folder) as parts:
        for name, content in zip(names, (config, processor), strict=True):
            if content:
                (parts / name).write_text(json.dumps(content, indent=2) + "\n")
        save_tensors(state, parts / weights, format="pt")


def huggingface_config(result: Conversion, settings: Mapping) -> dict:
    """Make the ``config.json`` of a model for video classification.

    ``settings`` are arguments of this package's model (``backbones``). The names of the classes are
    used if there are as many as classes.

    Raises:
        UserError: If the number of heads is unknown, or HuggingFace's model cannot have it or the
            size of the frames.
    """
    arch, (height, width), head = settings["arch"], settings["img_size"], result.head
    if "num_heads" not in arch:
        raise UserError("the checkpoint does not contain the number of heads; give num_heads")
    if head.get("num_heads", arch["num_heads"]) != arch["num_heads"]:
        raise UserError(
            "HuggingFace's classifier has as many heads as the encoder, "
            f"{arch['num_heads']}; this one has {head['num_heads']}"
        )
    if height != width and result.scheme not in ("spacetime", "videoprism"):
        raise UserError(f"HuggingFace's model needs square frames, got {height} x {width}")
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
        "videoprism": ("VideoPrism", _videoprism_arguments(settings)),
        "streamformer": ("Timesformer", _streamformer_arguments(settings)),
    }.get(result.scheme or "", ("Timesformer", dict(attention, patch_size=tubelet[-1])))
    norm = settings.get("norm", "layer")
    base = {"vjepa2": "Model", "videoprism": "VisionModel"}.get(result.scheme or "")
    architecture = base if base and not head else "ForVideoClassification"
    if result.scheme == "streamformer":  # the only class of the official code for it
        architecture = "MultiTaskingModelSigLIP"
    model_type = "videoprism_vision_model" if model_name == "VideoPrism" else model_name.lower()
    count, labels = len(result.state.get(CLASSIFIER, ())), class_names(result.info)
    labels = labels if len(labels) == count else [f"LABEL_{i}" for i in range(count)]
    problem = PROBLEMS.get(result.info.get("task", ""))
    return dict(
        architectures=[f"{model_name}{architecture}"],
        model_type=model_type,
        hidden_size=arch["embed_dims"],
        num_hidden_layers=arch["depth"],
        num_attention_heads=arch["num_heads"],
        intermediate_size=int(arch["embed_dims"] * arch["mlp_ratio"]),
        image_size=side,
        num_frames=frames,
        layer_norm_eps=1e-6 if isinstance(norm, str) else norm["eps"],
        **({"id2label": {str(i): label for i, label in enumerate(labels)}} if labels else {}),
        **({"label2id": {label: i for i, label in enumerate(labels)}} if labels else {}),
        **({"problem_type": problem} if problem else {}),
        **arguments,
    )


def _videoprism_arguments(settings: Mapping) -> dict:
    if "encoders" not in settings:  # another model
        return {}
    depths = [encoder["depth"] for encoder in settings["encoders"]]
    (sublayer,) = settings["encoders"][0]["block"]
    return dict(
        tubelet_size=list(settings["stem"]["tubelet"]),
        hidden_act="gelu_python",
        num_spatial_layers=depths[0],
        num_temporal_layers=depths[1],
        attn_logit_softcapping=sublayer["kernel"]["cap"],
    )


def _streamformer_arguments(settings: Mapping) -> dict:
    if "rope" in settings or "block" not in settings:  # another model
        return {}
    return dict(
        patch_size=settings["stem"]["tubelet"][-1],
        hidden_act="gelu_pytorch_tanh" if settings["mlp"]["act"] == "gelu_tanh" else "gelu",
        attention_type="divided_space_time",
        enable_causal_temporal=name_of(settings["block"][0]["pattern"]) == "causal_time",
    )


def processor_config(settings: Mapping, info: Mapping) -> dict:
    """Make the ``preprocessor_config.json``; empty if ``info`` has no pixel statistics."""
    if "mean" not in info:
        return {}
    (height, width), vivit = settings["img_size"], "rope" not in settings and "pool" in settings
    if "encoders" in settings:  # VideoPrism
        return dict(
            video_processor_type="LlavaOnevisionVideoProcessor",
            size={"height": height, "width": width},
            rescale_factor=1 / 255,
            do_normalize=False,
        )
    return dict(
        image_processor_type="VivitImageProcessor" if vivit else "VideoMAEImageProcessor",
        size={"shortest_edge": max(height, width) * 8 // 7 if vivit else height},
        crop_size={"height": height, "width": width},
        rescale_factor=1 / 255,
        offset=False,
        image_mean=[value / 255 for value in info["mean"]],
        image_std=[value / 255 for value in info["std"]],
    )
