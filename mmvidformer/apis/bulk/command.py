"""What the commands ``label`` and ``features`` do with their arguments."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress

from mmengine.config import Config
from tqdm import tqdm

from mmvidformer.apis.bulk.on_ray import answer_on_ray
from mmvidformer.apis.bulk.run import Answerer, Job, answer_videos
from mmvidformer.apis.bulk.settings import write_failed
from mmvidformer.apis.factory import find_model_of
from mmvidformer.data.sources import VideoInputs
from mmvidformer.engine.bulk_options import BulkOptions
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.engine.stops import stopped_by_signals
from mmvidformer.storage.names import spell
from mmvidformer.storage.parts import Answer, PartTable
from mmvidformer.video.processes import Named

WORKERS = 4  # that read for a model


def find_bulk_model(options: BulkOptions, inputs: VideoInputs) -> tuple[Config, str | None]:
    """Find the config and the weights of the options.

    What is in no local file is opened by ``VideoInit``.
    """
    cfg, checkpoint = find_model_of(options)
    if not inputs.are_files:
        set_video_backend(cfg, "pyav")
    return cfg, checkpoint


def answer_all(
    load: Callable[..., Answerer],
    answerer: Answerer,
    table: PartTable,
    inputs: VideoInputs,
    options: BulkOptions,
) -> int:
    """Answer for the videos that a table lacks, and write each part as it comes.

    Args:
        load: Loads an answerer to a device.
        answerer: What it has loaded.
        table: Table of the answers.
        inputs: All videos.
        options: The options.

    Returns:
        The exit status: 1 if a video failed.
    """
    job = Job(load, options.batch, options.workers, options.time_limit, options.device)
    names, missing = inputs.names, table.missing(options.retry)
    failed_before = table.failed() if not options.retry else {}
    count = 0
    videos = [(name, inputs.locate(name)) for name in missing]
    table.begin(missing)
    begun = len(names) - len(missing)
    with (
        tqdm(total=len(names), initial=begun, unit="video", disable=None) as bar,
        closing(_answers(job, answerer, videos, options)) as all_answers,
        stopped_by_signals(),
    ):
        try:
            for answers in all_answers:
                for answer in answers:
                    if answer.error is not None:
                        what = spell(f"failed: {answer.name}: {answer.error}")
                        tqdm.write(what, file=sys.stderr)
                    count += answer.error is None
                    table.append(answer)
                table.write_due()
                bar.update(len(answers))
            table.end()
        except BaseException:
            with suppress(Exception):  # the first error is the one that matters
                table.end()
                write_failed(options.out, table.failed())
            raise
    failed = table.failed()
    report = write_failed(options.out, failed)
    before = len(names) - count - len(failed)
    print(f"{count} answered, {before} answered before, {len(failed)} failed")
    if failed:
        print(f"reasons: {report}")
    if failed_before:
        print(f"{len(failed_before)} failed in an earlier run; --retry tries them again")
    return 1 if failed else 0


def _answers(
    job: Job, answerer: Answerer, videos: Sequence[Named], options: BulkOptions
) -> Iterator[list[Answer]]:
    if options.ray is not None and videos:
        yield from answer_on_ray(job, videos, options.ray, options.procs)
        return
    workers = job.workers
    if workers is None:
        workers = min(WORKERS, os.cpu_count() or 1)
    yield from answer_videos(job, answerer, videos, workers)
