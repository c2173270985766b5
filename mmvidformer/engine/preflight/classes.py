"""Numbers of classes: of the head, and of a checkpoint."""

from collections.abc import Mapping
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.runner.checkpoint import CheckpointLoader
from safetensors import SafetensorError, safe_open

from mmvidformer.engine.checkpointing.shards import is_complete
from mmvidformer.engine.preflight.problems import Problem

ADDRESSES = ("http://", "https://", "open-mmlab://", "torchvision://", "modelzoo://", "s3://")


def head_classes(cfg: Config) -> tuple[int, ...] | None:
    """Classes of the head, of each task in the order of the labels; None if it states none."""
    head = (cfg.get("model") or {}).get("cls_head") or {}
    if isinstance(head.get("tasks"), Mapping):
        return tuple(head["tasks"].values())
    return None if head.get("num_classes") is None else (head["num_classes"],)


def check_checkpoint(cfg: Config) -> list[Problem]:
    """Compare the classes of ``cfg.load_from`` with the head's.

    MMEngine logs that a tensor does not fit and goes on with the random one.
    """
    path = cfg.get("load_from")
    if not path or str(path).startswith(ADDRESSES):
        return []
    if not Path(path).exists():
        return [Problem("checkpoint", "load_from", f"there is no file {path}", "Mend the path.")]
    if Path(path).is_dir():
        if is_complete(path):
            return []
        what = f"{path} is a folder, and no whole checkpoint in shards"
        return [Problem("checkpoint", "load_from", what, "Name a checkpoint in it.")]
    try:
        shapes = _shapes(Path(path))
    except Exception as error:  # whatever the readers of three formats raise
        told = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        if str(path) not in told:
            told = f"{path} can't be read: {told[:200]}"
        remedy = "Give a whole checkpoint that holds weights by their names."
        return [Problem("checkpoint", "load_from", told, remedy)]
    classes = head_classes(cfg)
    if classes is None:
        return []
    found = {
        name: shape[0]
        for name, shape in shapes.items()
        if name.startswith("cls_head.") and name.endswith(".weight") and len(shape) == 2
    }
    last = {name: count for name, count in found.items() if "fc_cls" in name}
    wrong = {name: count for name, count in last.items() if count not in (*classes, sum(classes))}
    return [
        Problem(
            "checkpoint",
            "load_from",
            f"{path} has {count} classes ({name}), the head has {_text(classes)}",
            "Give the head as many classes as the checkpoint has; to train a new head on its "
            "backbone, give model.backbone.init_from=FILE instead of load_from.",
        )
        for name, count in wrong.items()
    ]


def _text(classes: tuple[int, ...]) -> str:
    return " + ".join(map(str, classes))


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of a checkpoint's tensors, without reading them where the format allows it."""
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, "pt") as file:
                return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
        except SafetensorError as error:
            raise ValueError(error) from error
    if not path.stat().st_size:
        raise ValueError("it is empty (0 bytes)")
    # The reader that the run will use, so that a file is refused here in the same words.
    content = CheckpointLoader.load_checkpoint(str(path), map_location="meta", logger="silent")
    state = content.get("state_dict", content) if isinstance(content, Mapping) else content
    if not isinstance(state, Mapping):
        raise ValueError(f"it holds a {type(state).__name__}, not the weights by their names")
    return {
        name.removeprefix("module."): tuple(tensor.shape)
        for name, tensor in state.items()
        if isinstance(tensor, torch.Tensor)
    }
