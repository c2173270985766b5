"""The loop over groups of videos in actors of Ray Data, on this machine or a cluster."""

import logging
import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from mmvidformer.apis.bulk.run import Job, answer_videos, cut
from mmvidformer.errors import MissingPackage, UserError
from mmvidformer.storage.parts import Answer
from mmvidformer.video.processes import Named

LOCAL = "local"
TASK = 4  # groups of videos of a task, whose answers come together


class Actor:
    """Holds the model, and answers for some videos at a time."""

    def __init__(self, job: Job, workers: int) -> None:
        threads = os.environ.get("OMP_NUM_THREADS")  # which Ray sets to the actor's cores
        torch.set_num_threads(int(threads or 1))
        self.job, self.workers = job, workers
        self.answerer = job.load(None)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list]:
        """Answer for the videos of a batch of tasks."""
        answers_of_tasks = []
        for content in batch["videos"]:
            answers: list[Answer] = []
            videos = pickle.loads(content)
            for ready in answer_videos(self.job, self.answerer, videos, self.workers):
                answers += ready
            answers_of_tasks.append(pickle.dumps(answers))
        return {"answers": answers_of_tasks}


def answer_on_ray(
    job: Job, videos: Sequence[Named], address: str = LOCAL, procs: int | None = None
) -> Iterator[list[Answer]]:
    """Answer for videos on Ray in tasks of ``TASK`` videos, and yield each task as it comes.

    An actor has a GPU if there are any, else a core. Ray starts a task again whose actor or machine
    died.

    Args:
        job: What is asked.
        videos: The videos.
        address: Of a running cluster, such as ``auto`` or ``ray://HOST:10001``; ``local`` starts
            one on this machine.
        procs: Number of actors; default: one for each GPU, or without any for each core.

    Raises:
        ConnectionError: If there is no cluster.
        ImportError: If Ray is missing.
        UserError: As ``answer_videos``.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingPackage('--ray needs Ray: pip install "mmvidformer[ray]"') from error
    if not ray.is_initialized():
        options = dict(include_dashboard=False) if address == LOCAL else {}
        ray.init(address, logging_level=logging.WARNING, log_to_driver=False, **options)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    resources = ray.cluster_resources()
    gpus, cores = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
    tasks = [{"videos": pickle.dumps(some)} for some in cut(videos, TASK * job.batch_size)]
    procs = min(procs or gpus or cores, len(tasks))
    workers = job.workers
    if workers is None:
        workers = max(min(4, cores // gpus), 1) if gpus else 1
    rows = ray.data.from_items(tasks, override_num_blocks=len(tasks))
    answered = rows.map_batches(
        Actor,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=procs),
        num_cpus=max(workers, 1) if gpus else 1,
        num_gpus=1 if gpus else 0,
        fn_constructor_args=(job, workers),
    )
    try:
        for row in answered.iter_rows():
            yield pickle.loads(row["answers"])
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise error.cause from None
        raise
