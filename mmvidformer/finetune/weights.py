"""Initial weights, in any format that can be converted."""

from pathlib import Path

from mmengine.config import Config

from mmvidformer.convert import FORMATS, read_model, save_checkpoint
from mmvidformer.engine.loading import HEAD, WrongWeights, build_meta_model, compare_weights


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
        ValueError: If the format of the checkpoint is unknown, or it is of another model.
    """
    kind, found = read_model(weights)
    if "init_from" in cfg.model.get("backbone", {}):
        cfg.model.backbone.init_from = None
    fit = compare_weights(build_meta_model(cfg), found.state)
    parts = {name.split(".")[0] for name in found.state} - {HEAD.rstrip(".")}
    if any(name.split(".")[0] in parts for name in fit.misfits()):
        raise WrongWeights(
            f"{weights} does not fit the model of the config: {fit}. (A backbone starts from an "
            "image model with --cfg-options model.backbone.init_from=FILE.)"
        )
    state = {name: value for name, value in found.state.items() if name in fit.matched}
    save_checkpoint(target, state, {"converted_from": kind})
    cfg.load_from = str(target)
    cfg.resume = False
    return [
        f"{weights} ({FORMATS[kind].title}): {len(state)} of {len(found.state)} tensors loaded",
        f"starts anew: {str(fit) or 'nothing'}",
    ]
