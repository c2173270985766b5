import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import cv2
import numpy as np
import torch
from torch.utils.data import get_worker_info

from mmvidformer.video.processes import end_with_parent

# What workers import, once for all. They do not augment tensors: torchvision takes a second.
PRELOADED = [
    "mmengine.dataset",
    "mmvidformer.data.bad_videos",
    "mmvidformer.data.transforms.decode",
    "mmvidformer.data.transforms.sampling",
    "mmvidformer.data.transforms.scale",
    "mmvidformer.data.workers",
    "mmvidformer.tasks.datasets",
]
_sample_timeout = 0.0


def init_worker(worker_id: int, sample_timeout: float = 300.0) -> None:
    """Set up a dataloader worker; for ``worker_init_fn`` of a dataloader.

    - It leaves the group of its parent process, so that Ctrl-C and the signals of a cluster reach
      the parent only, which still needs data to finish its step.
    - It ends with its parent, also if that is killed.
    - Its random numbers differ between workers and processes of a run.
    - OpenCV uses one thread, as PyTorch does in workers.
    - The system ends it if ``SafeDataset`` takes longer than ``sample_timeout`` seconds for a
      sample, also in native code that keeps the interpreter's lock, unlike a dataloader's timeout.
    """
    global _sample_timeout
    _sample_timeout = sample_timeout if hasattr(signal, "setitimer") else 0.0
    if hasattr(os, "setpgrp"):  # not on Windows
        os.setpgrp()
    end_with_parent()
    seeds = np.random.SeedSequence([get_worker_info().seed, int(os.environ.get("RANK", 0))])
    set_seed(int(seeds.generate_state(1, np.uint64)[0]))
    cv2.setNumThreads(0)


@contextmanager
def limited_time() -> Iterator[None]:
    """Limit the time in a worker by ``sample_timeout``; without effect in other processes."""
    if not _sample_timeout:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, _sample_timeout)  # SIGALRM, which ends the process
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def set_seed(seed: int) -> None:
    """Seed the generators that transforms use: Python's, NumPy's and PyTorch's on the CPU."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # torch.manual_seed would also queue calls for CUDA, which a worker never makes.
    torch.default_generator.manual_seed(seed)
