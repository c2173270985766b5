"""What ``--method auto`` trains: chosen by the number of videos, the weights and the processor."""

import inspect
import time
from typing import NamedTuple

import torch
from mmengine.config import Config

from mmvidformer.config.building import building
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.loading import default_device
from mmvidformer.finetune.coverage import clip_seconds, count_samples
from mmvidformer.finetune.methods import fitting_methods
from mmvidformer.finetune.ridge import MOST
from mmvidformer.finetune.settings import WHOLE, Recipe
from mmvidformer.registry import MODELS
from mmvidformer.tasks.base import Task

STEP = 3  # forward passes that a training step costs
LONGEST = 3 * 3600  # seconds that training on a CPU may take
FEW = 50  # classified videos: with fewer, all weights learn less than low-rank updates


class Pass(NamedTuple):
    """A forward pass of a clip: what it takes, and the moments of its tokens."""

    seconds: float
    moments: int


def choose_method(
    cfg: Config, lists: VideoLists, recipe: Recipe, task: Task, weights: str | None
) -> tuple[str, str]:
    """Choose a method of fine-tuning by a forward pass.

    An image model on up to 2,000 videos gets ``temporal``, which is the best on three real sets
    (``reports/real_videos.md``). Other trained models get low-rank updates (``lora``) on fewer than
    50 classified videos (``docs/finetune.md``). Otherwise all weights are trained. If a CPU
    would take more than three hours for either, a linear head is.

    Args:
        cfg: The config that is fine-tuned.
        lists: The videos.
        recipe: Settings of the run.
        task: Its task.
        weights: Checkpoint to start from.

    Returns:
        The method, and a line that says which, why, and how long it takes.
    """
    fitting = fitting_methods(cfg, task)
    if fitting == ("full",):
        return "full", "--method full: the only one for this model"
    measured = measure_pass(cfg)
    videos = lists.counts["train"]
    epochs = recipe.epochs or cfg.train_cfg.get("max_epochs") or 1
    seconds = clip_seconds(cfg)
    clips = {split: count_samples(lists, split, seconds) for split in lists.counts}
    training = STEP * measured.seconds * clips["train"] * epochs
    from_images = not weights and bool(cfg.model.backbone.get("init_from"))
    method, reason = "full", f"{videos} videos"
    if not weights and not from_images:
        reason += ", from random weights"
    elif "temporal" in fitting and from_images and videos <= MOST and measured.moments > 1:
        method = "temporal"
        reason += " and weights of an image model"
    elif default_device() == "cpu" and training > LONGEST:
        method = "linear"
        reason += f"; training the model would take {_say(training)}"
    elif task.probes and videos < FEW:
        method = "lora"
        reason += " are few for all weights"
    features = measured.seconds * sum(clips.values())
    duration = training if method in WHOLE else features
    threads = torch.get_num_threads()
    processor = f"{threads} thread{'s' if threads > 1 else ''}"
    place = processor if default_device() == "cpu" else "this GPU"
    return method, f"--method {method}: {reason}; it takes {_say(duration)} on {place}"


@torch.inference_mode()
def measure_pass(cfg: Config) -> Pass:
    """Measure a backbone with random weights on a clip."""
    settings = {**cfg.model.backbone, "init_from": None}
    with building(cfg):
        backbone = MODELS.build(settings).to(default_device()).eval()
    defaults = inspect.signature(type(backbone)).parameters
    frames = settings.get("clip_len", defaults["clip_len"].default)
    side = settings.get("img_size", defaults["img_size"].default)
    sides = (side, side) if isinstance(side, int) else side
    clip = torch.zeros(1, 3, frames, *sides, device=default_device())
    moments = backbone.forward_features(clip).places.shape[1]  # the first pass is slower
    start = time.perf_counter()
    backbone.forward_features(clip).places.sum().item()  # waits for a GPU
    return Pass(time.perf_counter() - start, moments)


def _say(seconds: float) -> str:
    """Describe a duration roughly."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}"
    return "about a minute" if seconds > 30 else "less than a minute"
