"""What the commands ``label`` and ``features`` do with their arguments."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Protocol

from mmengine.config import Config
from tqdm import tqdm

from mmvidformer.apis.bulk.on_ray import answer_on_ray
from mmvidformer.apis.bulk.run import Answer, Answerer, Job, Part, answer_parts, cut
from mmvidformer.apis.bulk.settings import write_failed
from mmvidformer.apis.factory import PUBLISHED, find_model
from mmvidformer.config import load_config
from mmvidformer.datasets.inputs import VideoInputs
from mmvidformer.engine.pipelines import set_video_backend

WORKERS = 4  # that read for a model
PARTS_OF_WORKERS = 64  # then others start: each holds a copy of the names


class Table(Protocol):
    """What takes the answers."""

    def missing(self, retry: bool) -> list[str]:
        """Return the names of the videos that have no answer."""

    def failed(self) -> dict[str, str]:
        """Return the reason of each video that could not be read."""

    def write(self, answers: Sequence[Answer]) -> None:
        """Write a part: all of its answers, or none."""


def find_bulk_model(args: Namespace, inputs: VideoInputs) -> tuple[Config, str | None]:
    """Find the config and the weights of ``add_bulk_arguments``.

    What is in no local file is opened by ``VideoInit``.

    Raises:
        ValueError: If the number of workers is negative.
    """
    if args.workers is not None and args.workers < 0:
        raise ValueError(f"--workers must not be negative, got {args.workers}")
    cfg = load_config(args.config, args.cfg_options)
    cfg, checkpoint = find_model(cfg, args.checkpoint or PUBLISHED)
    if not inputs.are_files:
        set_video_backend(cfg, "pyav")
    return cfg, checkpoint


def answer_all(
    job: Job, answerer: Answerer, table: Table, inputs: VideoInputs, args: Namespace
) -> int:
    """Answer for the videos that a table lacks, and write each part as it comes.

    Args:
        job: What is asked.
        answerer: What ``job`` loads.
        table: Table of the answers.
        inputs: All videos.
        args: Arguments of ``add_bulk_arguments``.

    Returns:
        The exit status: 1 if a video failed.
    """
    names, missing = inputs.names, table.missing(args.retry)
    failed_before = table.failed() if not args.retry else {}
    count = 0
    parts = cut([(name, inputs.locate(name)) for name in missing], args.part)
    begun = len(names) - len(missing)
    with tqdm(total=len(names), initial=begun, unit="video", disable=None) as bar:
        for answers in _answers(job, answerer, parts, args):
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
    if answerer.check is not None and not args.ray:  # actors have their own
        print(answerer.check.report())
    if failed_before:
        print(f"{len(failed_before)} failed in an earlier run; --retry tries them again")
    return 1 if failed else 0


def _answers(
    job: Job, answerer: Answerer, parts: Sequence[Part], args: Namespace
) -> Iterator[list[Answer]]:
    if args.ray is not None and parts:
        yield from answer_on_ray(job, parts, args.ray, args.procs)
        return
    workers = job.workers
    if workers is None:
        workers = min(WORKERS, os.cpu_count() or 1)
    for some_parts in cut(parts, PARTS_OF_WORKERS):
        yield from answer_parts(job, answerer, some_parts, workers)
