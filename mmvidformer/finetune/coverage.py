"""Epochs of long videos: several samples of each, until they cover it."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from mmengine.config import Config

from mmvidformer.config import type_name
from mmvidformer.config.fragments import Change, replace
from mmvidformer.data.own_videos import VideoLists
from mmvidformer.engine.checkpointing.loop import ResumableSampler
from mmvidformer.finetune.settings import Recipe
from mmvidformer.registry import DATA_SAMPLERS

USUAL_FPS = 25.0  # of a video, where a config counts frames; the videos are not opened here


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
        self.samples = torch.arange(len(dataset)).repeat_interleave(samples_of(ends, seconds))
        count = len(self.samples)
        if self.round_up:
            self.num_samples = math.ceil(count / self.world_size)
            self.total_size = self.num_samples * self.world_size
        else:
            self.num_samples = math.ceil((count - self.rank) / self.world_size)
            self.total_size = count

    def order(self, generator: torch.Generator) -> torch.Tensor:
        """Return the videos of an epoch."""
        count = len(self.samples)
        places = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
        return self.samples[places]


def samples_of(ends: Sequence[float], seconds: float) -> torch.Tensor:
    """Return how many samples of some seconds cover videos that end at ``ends``; at least 1."""
    return torch.tensor([max(math.ceil(end / seconds - 1e-6), 1) for end in ends])


def cover_videos(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Let an epoch cover the videos, if training takes clips out of them."""
    steps = cfg.train_dataloader.dataset.pipeline
    cover = next((step for step in steps if type_name(step) == "CoverFrames"), None)
    if cover is None:
        return {}, []
    rate = cover.get("target_fps") or USUAL_FPS
    frames = cover["clip_len"] * cover.get("frame_interval", 1) * cover.get("clips", 1)
    seconds = round(frames / rate, 3)
    sampler = dict(type="mmvidformer.CoverSampler", shuffle=True, seconds=seconds)
    fragment = {"train_dataloader": replace(cfg.train_dataloader, "sampler", sampler)}
    return fragment, [f"an epoch has a sample for every {seconds:g} s of a video"]


def samples_per_process(cfg: Config, lists: VideoLists, recipe: Recipe) -> int:
    """Return the number of samples of a process in an epoch."""
    count = lists.counts["train"]
    sampler = cfg.train_dataloader.get("sampler") or {}
    if type_name(sampler) == "CoverSampler":
        count = int(samples_of(lists.facts["train"].ends, sampler["seconds"]).sum())
    return math.ceil(count / recipe.procs)
