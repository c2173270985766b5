"""timm's image ViT to this package's names."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import ADD_TIME, Conversion, Rule, apply_rules, linear
from mmvidformer.convert.positions import Grid, frame_grid, position_rule

IGNORED = (r"(head|head_dist|pre_logits\.fc)\.(weight|bias)",)

BLOCK = (
    ("norm1", "sublayers.joint.norm"),
    ("attn.qkv", "sublayers.joint.attn.qkv"),
    ("attn.proj", "sublayers.joint.attn.proj"),
    ("norm2", "norm"),
    ("mlp.fc1", "mlp.fc1"),
    ("mlp.fc2", "mlp.fc2"),
)


def _rules(grid: Grid, cls: bool) -> list[Rule]:
    ours = "backbone.encoders.0"
    rules = [
        Rule(("patch_embed.proj.weight",), ("backbone.embed.proj.weight",), ADD_TIME),
        Rule(("patch_embed.proj.bias",), ("backbone.embed.proj.bias",)),
        Rule(("cls_token",), (f"{ours}.cls_token",), optional=not cls),
        position_rule("pos_embed", f"{ours}.pos_embed", grid, cls, slot=cls),
    ]
    for source, target in BLOCK:
        rules += linear(f"blocks.{{i}}.{source}", f"{ours}.blocks.{{i}}.{target}")
    return rules + linear("norm", f"{ours}.norm")


def from_timm(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert an image ViT without its classifier.

    Args:
        state: State dict of ``timm.models.VisionTransformer``.
        grid: Tokens (1, H, W) of the position table. Default: square.

    Raises:
        ValueError: If names are missing or unknown (layer scale, register tokens, ...), or the
            table is not square.
    """
    cls = "cls_token" in state
    size = (1, 1, 1)
    if "pos_embed" in state:
        size = frame_grid(state["pos_embed"].shape[1] - cls, grid)
    return apply_rules(state, _rules(size, cls), IGNORED)
