"""Weights to start from, in any format that can be converted."""

from pathlib import Path

from mmengine.config import Config
from torch import Tensor, nn

from mmvidformer.config import config_scope
from mmvidformer.convert import FORMATS, read_model, save_checkpoint
from mmvidformer.engine.loading import load_weights, some
from mmvidformer.registry import MODELS

HEAD = "cls_head."


def start_from(cfg: Config, weights: str | Path, target: str | Path) -> list[str]:
    """Write the weights of ``weights`` that fit the model of ``cfg``, and let it start from them.

    Weights of the head that have another shape, as those of another number of classes, are left out
    and start anew, and so is a part (backbone, neck, head) of which the file has nothing. All else
    must fit; position tables of other clips are resized when they are loaded.

    Args:
        cfg: Gets ``load_from``; its backbone no longer starts from an image model.
        weights: Checkpoint of ours or of another project (``convert.FORMATS``).
        target: The file that is written.

    Returns:
        What was loaded and what was not, in lines.

    Raises:
        FileNotFoundError: If there is no such checkpoint.
        ValueError: If it is not understood, or of another model.
    """
    kind, found = read_model(weights)
    if "init_from" in cfg.model.get("backbone", {}):
        cfg.model.backbone.init_from = None
    with config_scope(cfg):
        model = MODELS.build(cfg.model)
    wanted = model.state_dict()
    state, left_out = {}, []
    for name, value in found.state.items():
        own = wanted.get(name)
        if name.startswith(HEAD) and (own is None or own.shape != value.shape):
            here = "" if own is None else f" (here {_size(own)})"
            left_out.append(f"{name} {_size(value)}{here}")
        else:
            state[name] = value
    anew = _check(model, state, str(weights))
    save_checkpoint(target, state, {"converted_from": kind})
    cfg.load_from = str(target)
    cfg.resume = False
    return [
        f"{weights} ({FORMATS[kind].title}): {len(state)} of {len(found.state)} tensors loaded",
        f"left out: {', '.join(left_out) or 'nothing'}",
        f"start anew: {some(anew)}",
    ]


def _check(model: nn.Module, state: dict[str, Tensor], source: str) -> list[str]:
    """Load what there is, and name what starts anew."""
    missing, unexpected = load_weights(model, state, source)
    parts = {name.split(".")[0] for name in state}
    lacking = [n for n in missing if n.split(".")[0] in parts and not n.startswith(HEAD)]
    if lacking or unexpected:
        raise ValueError(
            f"{source} is of another model than the config: it lacks {some(lacking)}, and has "
            f"besides {some(unexpected)}. (An image model is where a backbone starts from: "
            "--cfg-options model.backbone.init_from=FILE.)"
        )
    return missing


def _size(value: Tensor) -> str:
    return "x".join(map(str, value.shape))
