"""What each process that runs tests imports and sets before the first of them."""

from multiprocessing import forkserver

import torch

import mmvidformer.registry  # noqa: F401  isort: skip  (repairs MMAction2, which many tests use)
import lab.papers.kernels  # noqa: F401  (the tests of kernels are theirs, too)
from tests.fast_runs import collect_rarely, look_around_once, read_configs_once, write_plainly

# Processes are forked from one server, which has what any of them needs, whichever test is the
# first: its imports would else be those of each process.
PRELOADED = [
    "matplotlib.figure",  # of each run, as MMEngine makes a visualizer
    "matplotlib.backends.backend_agg",
    "mmvidformer.registry",
    "mmaction.models",
    "mmaction.datasets",
    "mmaction.engine",
    "mmvidformer.apis.recognizer",
    "mmvidformer.data.transforms.auto_augment",
    "mmvidformer.engine.launch",
    "mmvidformer.models.registration",
    "mmvidformer.video.check_files",
    "mmvidformer.web.models",
    "mmvidformer.web.rows",
    "mmvidformer.web.shared_models",
    "timm.data",
]
forkserver.set_forkserver_preload(PRELOADED)
forkserver.set_forkserver_preload = lambda modules, **of_python_3_15: None

read_configs_once()
write_plainly()
look_around_once()
collect_rarely()
torch.set_num_threads(1)  # whatever a user's variable says
