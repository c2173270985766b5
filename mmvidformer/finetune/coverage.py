"""Epochs of long videos: several samples of each, until they cover it."""

from mmvidformer.registry import DATA_SAMPLERS, TRANSFORMS  # isort: skip  (repairs MMAction2)

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config

from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.config.building import building
from mmvidformer.config.fragments import Change, replace
from mmvidformer.data.list_folders import DURATIONS, LONG, ListFacts, VideoLists, read_durations
from mmvidformer.data.lists import say_count
from mmvidformer.engine.checkpointing.loop import ResumableSampler
from mmvidformer.finetune.long_videos import MOST
from mmvidformer.finetune.settings import Recipe

USUAL_FPS = 25.0  # of a video, where a config counts frames; the videos are not opened here
# Steps of a run from random weights, and from others, below which it hardly learns.
FEW_STEPS = {False: 300, True: 50}


@DATA_SAMPLERS.register_module()
class CoverSampler(ResumableSampler):
    """Draw a video as often in an epoch as its samples take to cover it.

    The length of a video is the end of its last span (``SpanDataset``); one without spans is drawn
    once. Or it is stated in a file: then videos over 30 s are covered, by 99 samples at most, and
    others are drawn once.

    Args:
        *args: The dataset.
        seconds: Seconds that a sample covers. None: each video is drawn once.
        durations: ``durations.csv`` beside the list of the dataset; default: spans.
        **kwargs: Further arguments of ``ResumableSampler``.
    """

    def __init__(
        self,
        *args: object,
        seconds: float | None = None,
        durations: str | None = None,
        **kwargs: object,
    ) -> None:
        self.seconds, self.durations = seconds, durations
        super().__init__(*args, **kwargs)

    def list_samples(self) -> torch.Tensor:
        """Return the samples of an epoch (samples,)."""
        if not self.seconds:
            return super().list_samples()
        rows = map(self.dataset.get_data_info, range(len(self.dataset)))
        if self.durations is None:
            ends = [np.max(row["spans"][:, 1], initial=0.0) for row in rows]
        else:
            root, stated = Path(self.durations).parent, read_durations(Path(self.durations))
            known = {str(root / video): seconds for video, seconds in stated.items()}
            known |= stated  # shards name videos as lists do
            ends = [known.get(row["filename"], 0.0) for row in rows]
        counts = samples_of(ends, self.seconds, self.durations is not None)
        return torch.arange(len(counts)).repeat_interleave(counts)


def samples_of(ends: Sequence[float], seconds: float, long_only: bool) -> torch.Tensor:
    """Return how many samples of some seconds cover videos that end at ``ends``; at least 1.

    With ``long_only`` it is 1 of videos that are not long (``LONG``), and at most ``MOST``.
    """
    times = np.array(ends, float)
    counts = np.ceil(times / seconds - 1e-6).clip(1, MOST if long_only else None)
    return torch.from_numpy(np.where(long_only & (times <= LONG), 1, counts)).long()


def cover_videos(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Let an epoch cover the videos, or a run have enough steps.

    Training that takes clips out of annotated films has a sample for every clip of a film. Videos
    of one answer are not opened here: if ``data list`` found long ones, these have as many samples
    as cover them, and others one. Where this makes too few steps, and the recipe leaves the epochs
    open, each is drawn more often.
    """
    loader, seconds = cfg.train_dataloader, clip_seconds(cfg)
    sampler = loader.get("sampler") or {}
    if type_name(sampler) != "ResumableSampler":
        return {}, []
    cover = {**sampler, "type": "mmvidformer.CoverSampler", "seconds": seconds}
    if any(type_name(step) == "CoverFrames" for step in loader.dataset.pipeline):
        note = f"an epoch has a sample for every {seconds:g} s of a video"
        return {"train_dataloader": replace(loader, "sampler", cover)}, [note]
    notes, drawn = [], "video"
    count = sum(duration > LONG for duration in _facts(lists, "train").durations)
    if count and seconds:
        sampler = {**cover, "durations": str(lists.root / DURATIONS)}
        notes.append(
            f"{say_count(count, 'video')} over {LONG:g} s: an epoch has a sample for every "
            f"{seconds:g} s, at most {MOST} of each"
        )
        drawn = "sample"
    draws = _draws(cfg, count_samples(lists, "train", seconds), recipe)
    if draws > 1:
        sampler = {**sampler, "draws": draws}
        notes.append(f"each {drawn} is drawn {draws} times an epoch, as there are few")
    return {"train_dataloader": replace(loader, "sampler", sampler)}, notes


def clip_seconds(cfg: Config) -> float:
    """Return the seconds of a video that a training sample covers; 0 if frames spread over it."""
    for step in next(leaf_datasets(cfg.train_dataloader.dataset)).pipeline:
        if "clip_len" in step:
            with building(cfg):
                taken = TRANSFORMS.build(step)
            if (getattr(taken, "num_clips", None) or 1) > 1:  # they are spread, as TSM's segments
                return 0.0
            frames = taken.clip_len * (getattr(taken, "frame_interval", None) or 0)
            rate = getattr(taken, "target_fps", None) or USUAL_FPS
            return round(frames * getattr(taken, "clips", 1) / rate, 3)
    return 0.0


def steps_to_learn(cfg: Config) -> int:
    """Return the number of steps below which a run of this config hardly learns."""
    return FEW_STEPS[has_weights(cfg)]


def has_weights(cfg: Config) -> bool:
    """Whether a run of a config starts from trained weights."""
    return bool(cfg.get("load_from") or cfg.model.backbone.get("init_from"))


def samples_per_process(cfg: Config, lists: VideoLists, recipe: Recipe) -> int:
    """Return the number of samples of a process in an epoch."""
    sampler = cfg.train_dataloader.get("sampler") or {}
    count = count_samples(lists, "train", sampler.get("seconds"), "durations" in sampler)
    return math.ceil(count * sampler.get("draws", 1) / recipe.procs)


def count_samples(
    lists: VideoLists, split: str, seconds: float | None, long_only: bool = True
) -> int:
    """Return how many samples of some seconds cover the videos of a list (``samples_of``)."""
    facts = _facts(lists, split)
    ends = facts.durations if long_only else facts.ends
    if not seconds or not ends:
        return lists.counts[split]
    return int(samples_of(ends, seconds, long_only).sum())


def _facts(lists: VideoLists, split: str) -> ListFacts:
    return lists.facts.get(split, ListFacts())


def _draws(cfg: Config, samples: int, recipe: Recipe) -> int:
    """Return how often each sample is drawn in an epoch, so that the run has steps to learn."""
    epochs = cfg.train_cfg.get("max_epochs")
    if recipe.epochs or not epochs:
        return 1
    batch = (recipe.batch or cfg.train_dataloader.batch_size) * recipe.procs
    needed = math.ceil(steps_to_learn(cfg) / epochs) * batch  # samples of an epoch
    return math.ceil(needed / max(samples, 1))
