"""The loop over groups of videos, in this process and its workers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from mmvidformer.apis.bulk.reading import (
    PRELOADED,
    TIME_LIMIT,
    Clip,
    ReadClips,
    Unread,
    note_answer,
    read_groups,
    say_fault,
)
from mmvidformer.storage.parts import Answer
from mmvidformer.video.processes import Lost, Named, run_groups

Item = TypeVar("Item")


class Answerer(Protocol):
    """Holds a model, and makes rows of clips.

    Attributes:
        read_clips: Reads a video.
        columns: Type of each column: str, float, list of float32, or tuple of whole numbers.
    """

    read_clips: ReadClips
    columns: Mapping[str, type]

    def answer(self, clips: Sequence[Clip]) -> list[list[dict[str, Any]]]:
        """Make the rows of each clip."""


class Job(NamedTuple):
    """What is asked of all videos; other processes and machines take it, too.

    Attributes:
        load: Loads the answerer to a device; None: the GPU if there is one.
        batch_size: Videos of a group, and clips of a batch.
        workers: Processes that read for a model; None: by the number of cores.
        time_limit: Seconds without a new frame or packet, after which a video counts as bad.
        device: Device of the model, if it answers on this machine.
    """

    load: Callable[[str | None], Answerer]
    batch_size: int
    workers: int | None = None
    time_limit: float = TIME_LIMIT
    device: str | None = None


def cut(videos: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """Cut a list into pieces of a size; the last one may be shorter."""
    return [videos[first : first + size] for first in range(0, len(videos), size)]


def answer_videos(
    job: Job, answerer: Answerer, videos: Sequence[Named], workers: int
) -> Iterator[list[Answer]]:
    """Answer for videos, and yield those that are ready: none, too, every few seconds.

    A video that ends the process that reads it, or hangs it, has failed, and others go on. A model
    that reads by itself answers in such a process, where it is loaded again. Without ``workers``
    all is read in this process, which a video can end.
    """
    groups = cut(videos, job.batch_size)
    if isinstance(answerer.read_clips, Unread) and workers:
        messages = run_groups(_AnswerGroup(job), groups, 1, job.time_limit, preloaded=PRELOADED)
    else:
        messages = read_groups(answerer.read_clips, groups, job.batch_size, workers, job.time_limit)
    answers: dict[str, Answer] = {}  # of videos that are begun
    with closing(messages):
        for message in messages:
            if isinstance(message, Answered):
                yield [message.answer]
                continue
            if isinstance(message, Lost):
                for name in message.again:
                    answers.pop(name, None)
                yield [Answer(name, [], reason) for name, reason in message.failed]
                continue
            for clip in message.clips:
                answers.setdefault(clip.name, Answer(clip.name, []))
            answer_batch(answerer, message.clips, answers)
            # A video without clips has no rows.
            yield [answers.pop(name, Answer(name, [])) for name in message.finished]


class Answered(NamedTuple):
    """The answer for a video that a process has read and answered for."""

    answer: Answer
    finished: list[str]


class _AnswerGroup:
    """Answers for a group of videos by a model that it loads when it is first called."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answerer: Answerer | None = None

    def __call__(self, group: Sequence[Named], touch: Callable[[str], None]) -> Iterator[Answered]:
        """Yield the answer for each video."""
        if self.answerer is None:
            self.answerer = self.job.load(self.job.device)
        for name, video in group:
            touch(name)
            answers = {name: Answer(name, [])}
            for sample, where in self.answerer.read_clips(video):
                answer_batch(self.answerer, [Clip(name, sample, where)], answers)
            if answers[name].error is None:
                note_answer()
            yield Answered(answers[name], [name])


def answer_batch(answerer: Answerer, clips: Sequence[Clip], answers: dict[str, Answer]) -> None:
    """Add the rows of clips to the answers of their videos. A bad video loses its rows."""
    readable = []
    for clip in clips:
        if clip.error is None:
            readable.append(clip)
        else:
            answers[clip.name] = Answer(clip.name, [], clip.error)
    if not readable:
        return
    try:
        rows_of_clips = answerer.answer(readable)
    except Exception as error:
        if isinstance(error, getattr(torch, "AcceleratorError", ())):  # nothing works after it
            raise
        if len(readable) > 1:  # find out which of them it is
            for clip in readable:
                answer_batch(answerer, [clip], answers)
        else:
            answers[readable[0].name] = Answer(readable[0].name, [], say_fault(error))
        return
    for clip, rows in zip(readable, rows_of_clips, strict=True):
        if answers[clip.name].error is None:
            answers[clip.name].rows.extend(rows)
