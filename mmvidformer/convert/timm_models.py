"""Image models of timm by name, and the arguments of ``VideoTransformer`` that make them."""

from typing import Any

import torch
from torch import nn

from mmvidformer.convert.own import mlp_ratio

PREFIX = "timm:"
# Names of timm's classes, since ``import timm`` is slow.
PARTS = {
    "": ("VisionTransformer", "Eva"),
    "patch_embed": ("PatchEmbed",),
    "patch_embed.norm": ("Identity",),
    "blocks.0": ("Block", "EvaBlock"),
    "blocks.0.norm1": ("LayerNorm", "RmsNorm"),
    "blocks.0.attn": ("Attention", "EvaAttention"),
    "blocks.0.attn.norm": ("Identity",),
    "blocks.0.mlp": ("Mlp", "GluMlp", "SwiGLU"),
    "blocks.0.mlp.act": ("GELU", "GELUTanh", "QuickGELU", "SiLU"),
    "rope": ("NoneType", "RotaryEmbeddingCat", "RotaryEmbeddingDinoV3"),
}
ACTIVATIONS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu"}


def create(name: str, pretrained: bool = True) -> nn.Module:
    """Create an image model of timm without its classifier.

    Raises:
        ValueError: If timm has no such model, or it has parts that ``VideoTransformer`` has not.
            The message names them.
    """
    import timm  # slow to import

    try:
        model = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except RuntimeError as error:
        raise ValueError(f"{PREFIX}{name}: {error}") from error
    for path, known in PARTS.items():
        part: Any = model
        for step in filter(None, path.split(".")):
            part = part[0] if step == "0" else getattr(part, step, None)
        if type(part).__name__ not in known and (part is not None or not path):
            what = f"{path or 'the model'} is a {type(part).__name__}"
            raise ValueError(f"{PREFIX}{name} is no start: {what}, not one of {', '.join(known)}")
    return model


def arguments_of(source: str) -> dict[str, Any]:
    """Return the arguments of ``VideoTransformer`` that make an image model of timm.

    With ``clip_len=1`` they give its tokens, and with ``init_from=source`` its weights. The models
    take ``arch=source`` for all of them and ``init_from`` at once.

    Args:
        source: ``'timm:NAME'``. No weights are fetched.

    Raises:
        ValueError: As ``create``.
    """
    with torch.device("meta"):
        return describe(create(source.removeprefix(PREFIX), pretrained=False))


def describe(model: Any) -> dict[str, Any]:
    """Return the arguments of ``VideoTransformer`` that make a model of ``create``."""
    block = model.blocks[0]
    act, norm = block.mlp.act, type(block.norm1).__name__
    tanh = getattr(act, "approximate", "none") == "tanh"
    return dict(
        arch=dict(
            embed_dims=model.embed_dim,
            depth=len(model.blocks),
            num_heads=block.attn.num_heads,
            mlp_ratio=mlp_ratio(model.embed_dim, block.mlp.fc2.in_features),
        ),
        stem=dict(tubelet=(1, *model.patch_embed.patch_size)),
        cls=None if model.cls_token is None else "mean",
        norm=dict(type="rms" if norm == "RmsNorm" else "layer", eps=block.norm1.eps),
        mlp=dict(type="mlp", act="gelu_tanh" if tanh else ACTIVATIONS[type(act).__name__]),
    )
