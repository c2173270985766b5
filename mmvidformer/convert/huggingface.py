"""HuggingFace's ViViT (model 1) to ours, and back."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import STACK_QKV, Conversion, Rule, State, apply_rules, linear
from mmvidformer.convert.positions import Grid, clip_grid, position_rule
from mmvidformer.lookup import look_up

# The pooler belongs to the bare model, whose other output the classifier reads.
IGNORED = (r"pooler\.dense\.(weight|bias)",)

# Names of a block's parts: in the files of the hub, and in the modules of transformers 5.
LAYOUTS = {
    "hub": dict(
        block="encoder.layer.{i}",
        qkv=("attention.attention.query", "attention.attention.key", "attention.attention.value"),
        proj="attention.output.dense",
        fc1="intermediate.dense",
        fc2="output.dense",
    ),
    "modules": dict(
        block="layers.{i}",
        qkv=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
        proj="attention.o_proj",
        fc1="mlp.fc1",
        fc2="mlp.fc2",
    ),
}

# What our ViViT has fixed: flax's GELU under HuggingFace's names for it.
TANH_GELU = ("gelu_fast", "gelu_new", "gelu_pytorch_tanh")


def _rules(layout: str, prefix: str, grid: Grid) -> list[Rule]:
    names, ours = LAYOUTS[layout], "backbone.encoder"
    source, target = f"{prefix}{names['block']}", f"{ours}.blocks.{{i}}"
    return [
        *linear(f"{prefix}embeddings.patch_embeddings.projection", "backbone.embed.proj"),
        Rule((f"{prefix}embeddings.cls_token",), (f"{ours}.cls_token",)),
        position_rule(
            f"{prefix}embeddings.position_embeddings", f"{ours}.pos_embed", grid, True, True
        ),
        *linear(f"{source}.layernorm_before", f"{target}.sublayers.joint.norm"),
        *linear(
            tuple(f"{source}.{part}" for part in names["qkv"]),
            f"{target}.sublayers.joint.attn.qkv",
            STACK_QKV,
        ),
        *linear(f"{source}.{names['proj']}", f"{target}.sublayers.joint.attn.proj"),
        *linear(f"{source}.layernorm_after", f"{target}.norm"),
        *linear(f"{source}.{names['fc1']}", f"{target}.mlp.fc1"),
        *linear(f"{source}.{names['fc2']}", f"{target}.mlp.fc2"),
        *linear(f"{prefix}layernorm", f"{ours}.norm"),
        *linear("classifier", "cls_head.fc_cls", optional=True),
    ]


def from_huggingface(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping | None = None
) -> Conversion:
    """Convert ``VivitForVideoClassification`` or ``VivitModel``.

    Args:
        state: Its state dict, under the hub's names or those of transformers 5.
        grid: Tokens (T, H, W) of the position table. Default: from ``meta``, or from the table's
            length where that tells.
        meta: The model's ``config.json``.

    Raises:
        ValueError: If names are missing or unknown, the grid must be given, or the configuration
            has another GELU or another layer-norm epsilon than ViViT.
    """
    meta = meta or {}
    prefix = "vivit." if any(name.startswith("vivit.") for name in state) else ""
    hub = any(name.startswith(f"{prefix}encoder.layer.") for name in state)
    if meta.get("hidden_act", "gelu_fast") not in TANH_GELU:
        raise ValueError(f"hidden_act must be one of {TANH_GELU}, got {meta['hidden_act']!r}")
    if meta.get("layer_norm_eps", 1e-6) != 1e-6:
        raise ValueError(f"layer_norm_eps must be 1e-6, got {meta['layer_norm_eps']}")
    kernel = state.get(f"{prefix}embeddings.patch_embeddings.projection.weight")
    table = state.get(f"{prefix}embeddings.position_embeddings")
    size = (1, 1, 1)
    if table is not None and kernel is not None:
        size = clip_grid(table.shape[1] - 1, tuple(kernel.shape[2:]), grid or _config_grid(meta))
    layout = "hub" if hub else "modules"
    result = apply_rules(state, _rules(layout, prefix, size), [prefix + p for p in IGNORED])
    result.scheme = "spacetime"
    result.num_heads = meta.get("num_attention_heads")
    return result


def _config_grid(meta: Mapping) -> Grid | None:
    if not {"num_frames", "image_size", "tubelet_size"} <= set(meta):
        return None
    side = meta["image_size"]
    pixels = (meta["num_frames"], *((side, side) if isinstance(side, int) else side))
    return tuple(n // p for n, p in zip(pixels, meta["tubelet_size"], strict=True))


def to_huggingface(state: Mapping[str, Tensor], layout: str = "hub") -> State:
    """Convert model 1 with class token back.

    Args:
        state: Weights of a recogniser, ``backbone.*`` and ``cls_head.fc_cls.*``.
        layout: ``'hub'``: names for files, which every version of transformers reads;
            ``'modules'``: names for ``load_state_dict`` in transformers 5.

    Raises:
        KeyError: If the layout is unknown.
        ValueError: If names are missing or unknown, as those of models 2 to 4 are.
    """
    look_up(LAYOUTS, layout, "layout")
    rules = [rule.reversed() for rule in _rules(layout, "vivit.", (1, 1, 1))]
    return apply_rules(state, rules).state


def huggingface_timesformer_config(settings: Mapping, num_classes: int | None = None) -> dict:
    """Write the ``config.json`` of ``TimesformerForVideoClassification``.

    Args:
        settings: Arguments of our backbone (``convert.describe.timesformer_settings``).
        num_classes: Outputs of the classifier, where there is one.

    Raises:
        ValueError: If the number of heads is not known, or frames are not square.
    """
    height, width = settings["img_size"]
    if height != width:
        raise ValueError(f"HuggingFace's TimeSformer takes square frames, not {height} x {width}")
    return dict(
        architectures=["TimesformerForVideoClassification"],
        model_type="timesformer",
        **_sizes(settings, num_classes),
        image_size=height,
        num_frames=settings["clip_len"],
        patch_size=settings["patch_size"],
        attention_type=settings["attention"],
        hidden_act="gelu",
        layer_norm_eps=1e-6,
    )


def huggingface_config(settings: Mapping, num_classes: int | None = None) -> dict:
    """Write the ``config.json`` of ``VivitForVideoClassification``.

    Args:
        settings: Arguments of our backbone (``convert.describe.vivit_settings``).
        num_classes: Outputs of the classifier, where there is one.

    Raises:
        ValueError: If the number of heads is not known.
    """
    height, width = settings["img_size"]
    return dict(
        architectures=["VivitForVideoClassification"],
        model_type="vivit",
        **_sizes(settings, num_classes),
        image_size=height if height == width else [height, width],
        num_frames=settings["clip_len"],
        tubelet_size=list(settings["tubelet"]),
        hidden_act="gelu_fast",
        layer_norm_eps=1e-6,
    )


def _sizes(settings: Mapping, num_classes: int | None) -> dict:
    arch = settings["arch"]
    if "num_heads" not in arch:
        raise ValueError("the checkpoint does not tell the number of heads; give it")
    config = dict(
        hidden_size=arch["embed_dims"],
        num_hidden_layers=arch["depth"],
        num_attention_heads=arch["num_heads"],
        intermediate_size=int(arch["embed_dims"] * arch["mlp_ratio"]),
    )
    if num_classes is not None:
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(num_classes)}
        config["label2id"] = {f"LABEL_{i}": i for i in range(num_classes)}
    return config
