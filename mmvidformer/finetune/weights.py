"""Initial weights, in any format that can be converted."""

from pathlib import Path

from mmengine.config import Config
from torch import Tensor

from mmvidformer.config import config_scope
from mmvidformer.convert import FORMATS, read_model, save_checkpoint
from mmvidformer.engine.loading import load_weights, some
from mmvidformer.registry import MODELS

HEAD = "cls_head."


def start_from(cfg: Config, weights: str | Path, target: str | Path) -> list[str]:
    """Write the weights that fit the model of a config, and set its ``load_from`` to them.

    Weights of the head with other shapes, such as those of another number of classes, are skipped,
    and so is a part (backbone, neck, head) that the file does not have: they are initialized. All
    other weights must fit. Position tables for other clips are resized when they are loaded.

    Args:
        cfg: Gets ``load_from``; its backbone no longer starts from an image model.
        weights: Checkpoint of ours or of another project (``convert.FORMATS``).
        target: File to write.

    Returns:
        Log lines of what was loaded and what was not.

    Raises:
        FileNotFoundError: If there is no such checkpoint.
        ValueError: If its format is unknown, or it is of another model.
    """
    kind, found = read_model(weights)
    if "init_from" in cfg.model.get("backbone", {}):
        cfg.model.backbone.init_from = None
    with config_scope(cfg):
        model = MODELS.build(cfg.model)
    wanted = model.state_dict()
    state, skipped = {}, []
    for name, value in found.state.items():
        own = wanted.get(name)
        if name.startswith(HEAD) and (own is None or own.shape != value.shape):
            here = "" if own is None else f" (here {_size(own)})"
            skipped.append(f"{name} {_size(value)}{here}")
        else:
            state[name] = value
    missing, unexpected = load_weights(model, state, str(weights))
    parts = {name.split(".")[0] for name in state}
    lacking = [n for n in missing if n.split(".")[0] in parts and not n.startswith(HEAD)]
    if lacking or unexpected:
        raise ValueError(
            f"{weights} is of another model than the config: missing {some(lacking)}, unexpected "
            f"{some(unexpected)}. (For the image model that a backbone starts from use "
            "--cfg-options model.backbone.init_from=FILE.)"
        )
    save_checkpoint(target, state, {"converted_from": kind})
    cfg.load_from = str(target)
    cfg.resume = False
    return [
        f"{weights} ({FORMATS[kind].title}): {len(state)} of {len(found.state)} tensors loaded",
        f"skipped: {', '.join(skipped) or 'nothing'}",
        f"initialized: {some(missing)}",
    ]


def _size(value: Tensor) -> str:
    return "x".join(map(str, value.shape))
