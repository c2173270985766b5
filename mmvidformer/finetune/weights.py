"""Weights to start from, in any format that can be converted."""

from pathlib import Path

from mmengine.config import Config

from mmvidformer.convert import FORMATS, read_model, save_checkpoint
from mmvidformer.engine.loading import HEAD, WrongWeights, build_meta_model, compare_weights


def start_from(cfg: Config, weights: str | Path, target: str | Path) -> list[str]:
    """Write the weights of ``weights`` that fit the model of ``cfg``, and let it start from them.

    Weights of the head that have another shape, as those of another number of classes, are left out
    and start anew, and so is a part (backbone, neck, head) of which the file has nothing. All else
    must fit; position tables of other clips are resized when they are loaded.

    Args:
        cfg: Gets ``load_from``; its backbone no longer starts from an image model.
        weights: Checkpoint of ours or of another project (``convert.detect``).
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
