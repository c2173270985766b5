"""What the commands ``label`` and ``features`` do with their arguments."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Protocol

from tqdm import tqdm

from mmvidformer.apis.bulk.on_ray import answer_on_ray
from mmvidformer.apis.bulk.run import Answer, Answerer, Job, answer_parts, cut
from mmvidformer.apis.bulk.settings import write_failed

WORKERS = 4  # that read for a model


class Table(Protocol):
    """What takes the answers."""

    def missing(self, retry: bool) -> list[str]:
        """Return the names of the videos that have no answer."""

    def failed(self) -> dict[str, str]:
        """Return the reason of each video that could not be read."""

    def write(self, answers: Sequence[Answer]) -> None:
        """Write a part: all of its answers, or none."""


def answer_all(
    job: Job, answerer: Answerer, table: Table, names: Sequence[str], args: Namespace
) -> int:
    """Answer for the videos that a table lacks, and write each part as it comes.

    Args:
        job: What is asked.
        answerer: What ``job`` loads.
        table: Table of the answers.
        names: Names of all videos.
        args: Arguments of ``add_bulk_arguments``.

    Returns:
        The exit status: 1 if a video failed.
    """
    missing = table.missing(args.retry)
    failed_before = table.failed() if not args.retry else {}
    count = 0
    with tqdm(
        total=len(names), initial=len(names) - len(missing), unit="video", disable=None
    ) as bar:
        for answers in _answers(job, answerer, cut(missing, args.part), args):
            table.write(answers)
            for answer in answers:
                if answer.error is not None:
                    tqdm.write(f"failed: {answer.error}", file=sys.stderr)
                else:
                    count += 1
            bar.update(len(answers))
    failed = table.failed()
    report = write_failed(args.out, failed)
    before = len(names) - count - len(failed)
    print(f"{count} answered, {before} answered before, {len(failed)} failed")
    if failed:
        print(f"reasons: {report}")
    if failed_before:
        print(f"{len(failed_before)} failed in an earlier run; --retry tries them again")
    return 1 if failed else 0


def _answers(
    job: Job, answerer: Answerer, parts: Sequence[Sequence[str]], args: Namespace
) -> Iterator[list[Answer]]:
    if not parts:
        return iter(())
    if args.ray is not None:
        return answer_on_ray(job, parts, args.ray, args.procs)
    workers = job.workers
    if workers is None:
        workers = min(WORKERS, os.cpu_count() or 1)
    return answer_parts(job, answerer, parts, workers)
