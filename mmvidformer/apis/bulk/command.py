"""What the commands ``label`` and ``features`` do with their arguments."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

from mmengine.config import Config
from tqdm import tqdm

from mmvidformer.apis.bulk.on_ray import answer_on_ray
from mmvidformer.apis.bulk.processes import Named
from mmvidformer.apis.bulk.run import Answer, Answerer, Job, answer_videos
from mmvidformer.apis.bulk.saving import PartWriter, Table, stopped_by_signals
from mmvidformer.apis.bulk.settings import write_failed
from mmvidformer.apis.factory import PUBLISHED, find_model
from mmvidformer.data.sources import VideoInputs
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.storage.names import spell

WORKERS = 4  # that read for a model


def find_bulk_model(args: Namespace, inputs: VideoInputs) -> tuple[Config, str | None]:
    """Find the config and the weights of ``add_bulk_arguments``.

    What is in no local file is opened by ``VideoInit``.
    """
    cfg, checkpoint = find_model(args.config, args.checkpoint or PUBLISHED, args.cfg_options)
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
    videos = [(name, inputs.locate(name)) for name in missing]
    writer = PartWriter(table, missing, args.part)
    begun = len(names) - len(missing)
    with (
        tqdm(total=len(names), initial=begun, unit="video", disable=None) as bar,
        closing(_answers(job, answerer, videos, args)) as all_answers,
        stopped_by_signals(),
    ):
        try:
            for answers in all_answers:
                for answer in answers:
                    if answer.error is not None:
                        what = spell(f"failed: {answer.name}: {answer.error}")
                        tqdm.write(what, file=sys.stderr)
                    count += answer.error is None
                writer.add(answers)
                bar.update(len(answers))
            writer.write_all()
        except BaseException:
            with suppress(Exception):  # the first error is the one that matters
                writer.write_all()
                write_failed(args.out, table.failed())
            raise
    failed = table.failed()
    report = write_failed(args.out, failed)
    before = len(names) - count - len(failed)
    print(f"{count} answered, {before} answered before, {len(failed)} failed")
    if failed:
        print(f"reasons: {report}")
    if answerer.check is not None and answerer.check.seen and not args.ray:
        print(answerer.check.report())
    if failed_before:
        print(f"{len(failed_before)} failed in an earlier run; --retry tries them again")
    return 1 if failed else 0


def _answers(
    job: Job, answerer: Answerer, videos: Sequence[Named], args: Namespace
) -> Iterator[list[Answer]]:
    if args.ray is not None and videos:
        yield from answer_on_ray(job, videos, args.ray, args.procs)
        return
    workers = job.workers
    if workers is None:
        workers = min(WORKERS, os.cpu_count() or 1)
    yield from answer_videos(job, answerer, videos, workers)
