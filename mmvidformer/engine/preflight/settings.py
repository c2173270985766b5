"""Clips, batches and weights: what a config asks for and what its model and data give."""

import math
from collections.abc import Iterator, Mapping

from mmengine.config import Config
from torch import nn

from mmvidformer.config import clip_shape, frame_size, type_name
from mmvidformer.engine.loading import Purpose, compare_weights, read_checkpoint


def compare_clips(cfg: Config, dataset: Mapping, model: nn.Module) -> Iterator[tuple[bool, str]]:
    """Compare the clips of a pipeline with the tubelets and the input size of the backbone.

    Models without tubelets are skipped, and so is what a pipeline leaves open: the length in early
    recognition, and frames that keep the proportions of the video.

    Yields:
        Whether it is an error or works as it is, and the problem.
    """
    embed = getattr(getattr(model, "backbone", None), "embed", None)
    if not hasattr(embed, "tubelet"):
        return
    pipeline = [*(dataset.get("pipeline") or ())]
    if not dataset.get("test_mode"):  # the data preprocessor may crop
        pipeline += (cfg.model.get("data_preprocessor") or {}).get("augment") or ()
    frames = [step["clip_len"] for step in pipeline if step.get("clip_len") is not None]
    frame, (_, *wanted) = [*(frame_size(pipeline) or ())], clip_shape(cfg)
    overlap = tuple(embed.stride) != tuple(embed.tubelet)
    for unit, size, tubelet, made_for in (
        ("clip_len", frames[-1:], embed.tubelet[:1], wanted[:1]),
        ("height and width", frame, embed.tubelet[1:], wanted[1:]),
    ):
        rest = any(n < 1 or n % side for n, side in zip(size, tubelet, strict=False))
        if rest and not overlap:
            yield True, f"{unit} of clips must be a multiple of {list(tubelet)}, got {size}"
        elif size and size != made_for:
            what = f"{unit} of clips is {size}, model.backbone is made for {made_for}"
            yield False, f"{what} and will resize its positions"


def wrong_batch(loader: Mapping, size: int, world_size: int) -> Iterator[str]:
    """A batch size that leaves a process without a batch, for a dataset of ``size`` samples."""
    most = math.ceil(size / world_size)
    wrapped = "dataset" in loader["dataset"] or "datasets" in loader["dataset"]
    endless = type_name(loader.get("sampler") or {}) == "InfiniteSampler"
    if loader.get("drop_last") and not (wrapped or endless) and most < loader.get("batch_size", 1):
        yield (
            f"train_dataloader.batch_size must be at most {most} with drop_last, got "
            f"{loader['batch_size']}: {size} samples are shared by {world_size} processes"
        )


def check_weights(cfg: Config, model: nn.Module, purpose: Purpose) -> None:
    """Check that ``cfg.load_from`` can be read and fits a model; addresses are skipped.

    Raises:
        Exception: If not.
    """
    path = str(cfg.get("load_from") or "")
    if not path or "://" in path:
        return
    checkpoint = read_checkpoint(path, "meta")
    if purpose == "resume" and not {"meta", "message_hub"} <= set(checkpoint):
        raise ValueError(f"{path} has no training state to resume; set load_from for its weights")
    compare_weights(model, checkpoint).check(path, purpose)
