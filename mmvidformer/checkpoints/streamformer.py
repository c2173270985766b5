"""StreamFormer (Yan et al., ICCV 2025), the names of its code, in both directions.

It is SigLIP's image model with TimeSformer's divided attention, causal over time, whose update is
multiplied by the tanh of a learned number. Published weights have low-rank updates in space, which
are added to their layers.
"""

import re
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import ENCODER, HEADS, mlp_ratio, read_act
from mmvidformer.checkpoints.keymap import Conversion, Rule, State, apply_rules, has, key_map
from mmvidformer.checkpoints.operations import ADD_TIME, IN_PROJ, TIME_TABLE, Grid, positions
from mmvidformer.layers.linear import merge_lora

# Text encoder and heads of the tasks; a mask, and what scales logits.
UNUSED_WEIGHTS = (
    r"(text_encoder|task_heads)\..*",
    r"logit_(scale|bias)",
    r".*\.temporal_attention\.attention\.mask",
)
LORA = re.compile(r"(.*)_lora_([ab])\.weight")


def is_streamformer(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of StreamFormer."""
    return has(state, r"encoder\.layer\.0\.temporal_attention_gating$")


def from_streamformer(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping = {}
) -> Conversion:
    """Convert ``TimesformerMultiTaskingModelSigLIP``, or the backbone of a training checkpoint.

    The pooling that it applies to each frame becomes that of an ``AttentiveHead``.

    Args:
        state: Weights.
        grid: Tokens (T, H, W) of the position table, if frames are not square.
        meta: ``config.json``. Without it, attention over time is causal, and the GELU SigLIP's.

    Raises:
        UserError: If names do not fit, or settings are those of another function.
    """
    act = read_act(meta, "gelu_pytorch_tanh", "gelu", "gelu_tanh")
    time = "causal_time" if meta.get("enable_causal_temporal", True) else "time"
    state = _merge_lora(state)
    result = apply_rules(state, streamformer_rules(state, time, grid), UNUSED_WEIGHTS)
    result.model, result.scheme = "VideoTransformer", "streamformer"
    shapes = {name: x.shape for name, x in result.state.items()}
    width, _, *tubelet = shapes["backbone.embed.proj.weight"]
    result.num_heads = meta.get("num_attention_heads", HEADS.get(width))
    norm = dict(type="layer", eps=meta.get("layer_norm_eps", 1e-6))
    _, _, rows, columns, _ = shapes[f"{ENCODER}.pos_embed.hw"]
    frames = shapes[f"{ENCODER}.pos_embed.t"][1]
    over_time: dict = dict(pattern=time, fc="gated")
    positions: dict = dict(type="space_time", rule="bicubic")
    if time == "causal_time":
        # The authors' stream has the last position from then on, too; its past has no bound.
        over_time["pattern"] = dict(type=time, past=max(frames, 2))
        positions["hold_last"] = True
    result.settings = dict(
        clip_len=frames,
        img_size=(rows * tubelet[1], columns * tubelet[2]),
        block=[over_time, dict(pattern="space")],
        positions=positions,
        mlp=dict(type="mlp", act=act),
        norm=norm,
        pool="none",
    )
    if "cls_head.pooling.query" in shapes:
        ratio = mlp_ratio(width, shapes["cls_head.pooling.mlp.fc1.bias"][0])
        if act != "gelu_tanh" or ratio != 4.0:
            result.notes.append(f"the pooling has act={act!r} and mlp_ratio={ratio:g}")
        result.head = dict(pooling="siglip", depth=0, norm=norm)
        result.head |= {"num_heads": result.num_heads} if result.num_heads else {}
    return result


def streamformer_rules(
    state: Mapping[str, Tensor], time: str = "", grid: Grid | None = None
) -> list[Rule]:
    """Return the rows for the parts that a state has; its names may be theirs or ours."""
    causal = has(state, r"sublayers\.causal_time\.")
    time = time or ("causal_time" if causal else "time")
    ops = {
        "backbone.embed.proj.weight": ADD_TIME,
        f"{ENCODER}.pos_embed.hw": positions(grid, cls=False, slot=False),
        f"{ENCODER}.pos_embed.t": TIME_TABLE,
        "cls_head.pooling.q.weight": IN_PROJ,
        "cls_head.pooling.q.bias": IN_PROJ,
    }
    prefix = "timesformer." if has(state, r"^timesformer\.") else ""
    rules = key_map("streamformer", "model", ops=ops, prefix=prefix, time=time)
    if has(state, r"(head\.probe|pooling\.query)$"):
        rules += key_map("streamformer", "head", ops=ops, prefix=prefix)
    return rules


def _merge_lora(state: Mapping[str, Tensor]) -> State:
    """Add low-rank updates ``B (A x)`` to the weights of their layers."""
    renamed: State = {}
    for name, value in state.items():
        update = LORA.fullmatch(name)
        if update:
            stem, part = update.groups()
            renamed[f"{stem}.lora_{part}"] = value
            renamed[f"{stem}.lora_scale"] = value.new_ones(())
        else:
            renamed[name] = value
    merge_lora(renamed)
    return renamed
