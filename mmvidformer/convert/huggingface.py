"""HuggingFace's ViViT (model 1) to this package's names and back, and ``config.json`` files."""

from collections.abc import Mapping, Sequence
from functools import partial

from torch import Tensor

from mmvidformer.convert.keymap import Conversion, State, apply_rules, has, key_map, revert
from mmvidformer.convert.own import VIDEO_VITS
from mmvidformer.convert.positions import Grid, clip_grid, divide, positions

# The pooler is another output of the bare model; the classifier does not read it.
IGNORED = r"pooler\.dense\.(weight|bias)"
TABLE = "backbone.encoders.0.pos_embed.thw"

# HuggingFace's names of the GELU that ViViT uses, flax's tanh approximation.
TANH_GELU = ("gelu_fast", "gelu_new", "gelu_pytorch_tanh")


def from_huggingface(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping | None = None
) -> Conversion:
    """Convert ``VivitForVideoClassification`` or ``VivitModel`` in either layout."""
    meta = meta or {}
    prefix = "vivit." if has(state, r"^vivit\.") else ""
    heads = read_num_heads(meta, TANH_GELU)
    kernel = state.get(f"{prefix}embeddings.patch_embeddings.projection.weight")
    tubelet = () if kernel is None else kernel.shape[2:]
    tables = partial(clip_grid, tubelet=tubelet, given=grid or _config_grid(meta))
    layout = "hub" if has(state, r"encoder\.layer\.") else "modules"
    ops = {TABLE: positions(tables)}
    rules = key_map("vivit", "model", dialect=layout, ops=ops, prefix=prefix)
    result = apply_rules(state, rules, [prefix + IGNORED])
    result.model, result.scheme, result.num_heads = "ViViT", "spacetime", heads
    return result


def read_num_heads(meta: Mapping, activations: Sequence[str]) -> int | None:
    """Read the number of heads from the content of ``config.json``, which may be empty.

    Raises:
        ValueError: If ``hidden_act`` is none of ``activations``, or ``layer_norm_eps`` not 1e-6.
    """
    if meta.get("hidden_act", activations[0]) not in activations:
        raise ValueError(
            f"hidden_act must be one of {', '.join(activations)}, got {meta['hidden_act']!r}"
        )
    if meta.get("layer_norm_eps", 1e-6) != 1e-6:
        raise ValueError(f"layer_norm_eps must be 1e-6, got {meta['layer_norm_eps']}")
    return meta.get("num_attention_heads")


def _config_grid(meta: Mapping) -> Grid | None:
    if not {"num_frames", "image_size", "tubelet_size"} <= set(meta):
        return None
    side = meta["image_size"]
    height, width = (side, side) if isinstance(side, int) else side
    return divide((meta["num_frames"], height, width), meta["tubelet_size"])


def to_huggingface(state: Mapping[str, Tensor], layout: str = "hub") -> State:
    """Convert ``backbone.*`` and ``cls_head.fc_cls.*`` of model 1 with class token back.

    Args:
        state: Weights of a recognizer.
        layout: ``'hub'``: names for files, which every version of transformers reads;
            ``'modules'``: names for ``load_state_dict`` in transformers 5.

    Raises:
        KeyError: If the layout is unknown.
        ValueError: If names are missing or unknown, such as those of models 2 to 4.
    """
    ops = {TABLE: positions()}
    return revert(state, key_map("vivit", "model", dialect=layout, ops=ops, prefix="vivit."))


def huggingface_config(
    settings: Mapping,
    num_classes: int | None = None,
    names: Sequence[str] = (),
    scheme: str | None = None,
    head: Mapping | None = None,
) -> dict:
    """Make the ``config.json`` of a model for video classification.

    ``settings`` are arguments of this package's model (``convert.own``), and ``head`` those of an
    attentive head. The names are used if there are as many as classes.

    Raises:
        ValueError: If the number of heads is unknown, or HuggingFace's model cannot have it or the
            size of the frames.
    """
    arch, (height, width) = settings["arch"], settings["img_size"]
    if "num_heads" not in arch:
        raise ValueError("the checkpoint does not contain the number of heads; give num_heads")
    labels = [f"LABEL_{i}" for i in range(num_classes or 0)]
    labels = list(names) if len(names) == num_classes else labels
    config = dict(
        hidden_size=arch["embed_dims"],
        num_hidden_layers=arch["depth"],
        num_attention_heads=arch["num_heads"],
        intermediate_size=int(arch["embed_dims"] * arch["mlp_ratio"]),
        num_frames=settings.get("clip_len", 1),
        layer_norm_eps=1e-6,
    )
    if labels:
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
    tubelet, norm = settings["stem"]["tubelet"], settings.get("norm", "layer")
    if scheme == "spacetime":
        return config | dict(
            architectures=["VivitForVideoClassification"],
            model_type="vivit",
            image_size=height if height == width else [height, width],
            tubelet_size=list(tubelet),
            hidden_act="gelu_fast",
        )
    config["patch_size"] = tubelet[-1]
    if scheme in VIDEO_VITS:
        config["tubelet_size"] = tubelet[0]
        config["layer_norm_eps"] = 1e-6 if isinstance(norm, str) else norm["eps"]
    if scheme == "vjepa2":
        if head and head["num_heads"] != arch["num_heads"]:
            raise ValueError(
                "HuggingFace's classifier has as many heads as the encoder, "
                f"{arch['num_heads']}; this one has {head['num_heads']}"
            )
        return config | dict(
            architectures=["VJEPA2ForVideoClassification" if head else "VJEPA2Model"],
            model_type="vjepa2",
            crop_size=height,
            frames_per_clip=settings["clip_len"],
            mlp_ratio=arch["mlp_ratio"],
            num_pooler_layers=(head or {}).get("depth", 3),
        )
    if height != width:
        raise ValueError(f"HuggingFace's model needs square frames, got {height} x {width}")
    config["image_size"] = height
    if scheme == "videomae":
        return config | dict(
            architectures=["VideoMAEForVideoClassification"],
            model_type="videomae",
            use_mean_pooling=settings.get("fc_norm") is not None,
        )
    return config | dict(
        architectures=["TimesformerForVideoClassification"],
        model_type="timesformer",
        attention_type=settings["scheme"],
        hidden_act="gelu",
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
