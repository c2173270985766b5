"""The loop over groups of videos, in this process and its workers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from mmvidformer.apis.bulk.reading import Clip, Named, ReadClips, read_groups
from mmvidformer.apis.self_check import SelfCheck
from mmvidformer.storage.errors import StorageError

Item = TypeVar("Item")


class Answer(NamedTuple):
    """The rows of a video, or why it has none."""

    name: str
    rows: list[dict[str, Any]]
    error: str | None = None


class Answerer(Protocol):
    """Holds a model, and makes rows of clips.

    Attributes:
        read_clips: Reads a video.
        columns: Type of each column: str, float, list of float32, or tuple of whole numbers.
        check: What compares inexact answers with exact ones, if they are inexact.
    """

    read_clips: ReadClips
    columns: Mapping[str, type]
    check: SelfCheck | None

    def answer(self, clips: Sequence[Clip]) -> list[list[dict[str, Any]]]:
        """Make the rows of each clip; OSError or ValueError if a video cannot be read."""


class Job(NamedTuple):
    """What is asked of all videos; other processes and machines take it, too.

    Attributes:
        load: Loads the answerer to a device; None: the GPU if there is one.
        batch_size: Videos of a group, and clips of a batch.
        workers: Processes that read for a model; None: by the number of cores.
    """

    load: Callable[[str | None], Answerer]
    batch_size: int
    workers: int | None = None


Part = Sequence[Named]


def cut(videos: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """Cut a list into pieces of a size; the last one may be shorter."""
    return [videos[first : first + size] for first in range(0, len(videos), size)]


def answer_parts(
    job: Job, answerer: Answerer, parts: Sequence[Part], workers: int
) -> Iterator[list[Answer]]:
    """Answer for the videos of parts, and yield each part when it is complete.

    Workers read later groups, also those of later parts, while the model runs.
    """
    groups, part_of = [], []
    for number, part in enumerate(parts):
        for piece in cut(part, job.batch_size):
            groups.append(piece)
            part_of.append(number)
    remaining = Counter(part_of)  # groups of each part
    answers: dict[int, dict[str, Answer]] = {}  # of parts that are begun
    for batch in read_groups(answerer.read_clips, groups, job.batch_size, workers):
        number = part_of[batch.group]
        if number not in answers:
            answers[number] = {name: Answer(name, []) for name, _ in parts[number]}
        answer_batch(answerer, batch.clips, answers[number])
        remaining[number] -= batch.is_last
        if not remaining[number]:
            yield list(answers.pop(number).values())


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
    except StorageError:
        raise
    except (OSError, ValueError) as error:
        if len(readable) > 1:  # find out which of them it is
            for clip in readable:
                answer_batch(answerer, [clip], answers)
        else:
            answers[readable[0].name] = Answer(readable[0].name, [], str(error))
        return
    for clip, rows in zip(readable, rows_of_clips, strict=True):
        if answers[clip.name].error is None:
            answers[clip.name].rows.extend(rows)
