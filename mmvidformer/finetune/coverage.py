"""Epochs of long videos: several samples of each, until they cover it."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from mmengine.config import Config

from mmvidformer.config import type_name
from mmvidformer.config.fragments import Change, replace
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.checkpointing.loop import ResumableSampler
from mmvidformer.finetune.settings import Recipe
from mmvidformer.registry import DATA_SAMPLERS

USUAL_FPS = 25.0  # of a video, where a config counts frames; the videos are not opened here
# Steps of a run from random weights, and from others, below which it hardly learns.
FEW_STEPS = {False: 300, True: 50}


@DATA_SAMPLERS.register_module()
class CoverSampler(ResumableSampler):
    """Draw a video as often in an epoch as its samples take to cover it.

    The length of a video is the end of its last span (``SpanDataset``). One without spans is drawn
    once.

    Args:
        dataset: Dataset whose samples have ``spans``.
        seconds: Seconds that a sample covers.
        **kwargs: Further arguments of ``ResumableSampler``.
    """

    def __init__(self, dataset: object, seconds: float, **kwargs: object) -> None:
        super().__init__(dataset, **kwargs)
        ends = []
        for number in range(len(dataset)):
            spans = dataset.get_data_info(number)["spans"]
            ends.append(np.max(spans[:, 1], initial=0.0))
        videos = torch.arange(len(dataset))
        self.set_samples(videos.repeat_interleave(samples_of(ends, seconds)))


def samples_of(ends: Sequence[float], seconds: float) -> torch.Tensor:
    """Return how many samples of some seconds cover videos that end at ``ends``; at least 1."""
    return torch.tensor([max(math.ceil(end / seconds - 1e-6), 1) for end in ends])


def cover_videos(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Let an epoch cover the videos, or a run have enough steps.

    Training that takes clips out of annotated films has a sample for every clip of a film. Videos
    of one class are not opened here, and short ones are usual: each is drawn once an epoch. Where
    this makes too few steps, and the recipe leaves the epochs open, each is drawn more often.
    """
    steps = cfg.train_dataloader.dataset.pipeline
    cover = next((step for step in steps if type_name(step) == "CoverFrames"), None)
    if cover is None:
        return _draw_often(cfg, lists, recipe)
    rate = cover.get("target_fps") or USUAL_FPS
    frames = cover["clip_len"] * cover.get("frame_interval", 1) * cover.get("clips", 1)
    seconds = round(frames / rate, 3)
    sampler = dict(type="mmvidformer.CoverSampler", shuffle=True, seconds=seconds)
    fragment = {"train_dataloader": replace(cfg.train_dataloader, "sampler", sampler)}
    return fragment, [f"an epoch has a sample for every {seconds:g} s of a video"]


def steps_to_learn(cfg: Config) -> int:
    """Return the number of steps below which a run of this config hardly learns."""
    return FEW_STEPS[has_weights(cfg)]


def has_weights(cfg: Config) -> bool:
    """Whether a run of a config starts from trained weights."""
    return bool(cfg.get("load_from") or cfg.model.backbone.get("init_from"))


def samples_per_process(cfg: Config, lists: VideoLists, recipe: Recipe) -> int:
    """Return the number of samples of a process in an epoch."""
    sampler = cfg.train_dataloader.get("sampler") or {}
    count = lists.counts["train"] * sampler.get("draws", 1)
    if type_name(sampler) == "CoverSampler":
        count = int(samples_of(lists.facts["train"].ends, sampler["seconds"]).sum())
    return math.ceil(count / recipe.procs)


def _draw_often(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Draw each video as often in an epoch as the run needs to learn."""
    epochs, sampler = cfg.train_cfg.get("max_epochs"), cfg.train_dataloader.get("sampler") or {}
    if recipe.epochs or not epochs or type_name(sampler) != "ResumableSampler":
        return {}, []
    batch = (recipe.batch or cfg.train_dataloader.batch_size) * recipe.procs
    needed = math.ceil(steps_to_learn(cfg) / epochs) * batch  # samples of an epoch
    draws = math.ceil(needed / max(lists.counts["train"], 1))
    if draws < 2:
        return {}, []
    fragment = {"train_dataloader": {"sampler": {"draws": draws}}}
    return fragment, [f"each video is drawn {draws} times an epoch, as there are few"]
