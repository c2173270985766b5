"""VideoMAE, V-JEPA 2 and VideoPrism of transformers, with the weights of a config's model."""

from collections.abc import Mapping

from torch import nn

from mmvidformer.checkpoints.huggingface import huggingface_config
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.errors import UserError
from mmvidformer.layers.config import name_of


def scheme_of(backbone: Mapping) -> str | None:
    """Return the scheme (``checkpoints.backbones``) of a backbone that transformers has too."""
    if backbone.get("rope") == "vjepa2":
        return "vjepa2"
    positions = backbone.get("positions")
    if isinstance(positions, Mapping) and positions.get("fixed") == "flat":
        return "videomae"
    encoders = backbone.get("encoders") or []
    sublayers = [sublayer for encoder in encoders for sublayer in encoder.get("block", [])]
    kernels = {name_of(sublayer.get("kernel", "softmax")) for sublayer in sublayers}
    return "videoprism" if kernels == {"capped"} else None


def build_classifier(ours: nn.Module, backbone: Mapping, cls_head: Mapping) -> nn.Module | None:
    """Build the model of transformers that computes the same logits.

    Args:
        ours: Module with a ``backbone`` and a ``cls_head``.
        backbone: Its config.
        cls_head: That of the head.

    Returns:
        The model; None if there is none.

    Raises:
        UserError: If it cannot have a setting, or names do not fit.
    """
    scheme = scheme_of(backbone)
    if scheme is None:
        return None
    from transformers import AutoConfig, AutoModelForVideoClassification, __version__

    sizes = {name: cls_head[name] for name in ("num_heads", "depth") if name in cls_head}
    conversion = Conversion(ours.state_dict(), scheme=scheme, head=sizes)
    side = backbone["img_size"]
    sides = (side, side) if isinstance(side, int) else side
    arch = ours.backbone.configs[0].sizes
    config = huggingface_config(conversion, {**backbone, "arch": arch, "img_size": sides})
    if scheme == "vjepa2":
        config["pred_num_hidden_layers"] = 0  # which a classifier does not run
    theirs = AutoModelForVideoClassification.from_config(AutoConfig.for_model(**config))
    norm = cls_head.get("norm", "layer")
    if scheme == "vjepa2" and isinstance(norm, Mapping):  # transformers has that of the encoder
        for part in theirs.pooler.modules():
            if isinstance(part, nn.LayerNorm):
                part.eps = norm["eps"]
    has_modules = scheme == "videomae" and __version__ >= "5"
    state = to_other(conversion.state, scheme, "modules" if has_modules else "huggingface")
    misfits = theirs.load_state_dict(state, strict=False)
    missing = [name for name in misfits.missing_keys if ".predictor." not in name]
    if missing or misfits.unexpected_keys:
        raise UserError(f"names that do not fit: {missing + misfits.unexpected_keys}")
    return theirs
