"""What MMEngine does for each run, in less time."""

import ast
import gc
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from mmengine.config import Config, config
from mmengine.dataset import base_dataset
from mmengine.runner import runner

ROOT = Path(__file__).parents[1]


def read_configs_once() -> None:
    """Parse each file once; who reads one gets a copy.

    MMEngine copies a file and each of its bases into temporary folders to read them.
    """
    read = Config._file2dict
    parse = cache(read)

    def parse_once(filename: str | Path, *args: object, **options: object) -> tuple:
        path = Path(filename).absolute()
        if not path.is_relative_to(ROOT):
            return read(filename, *args, **options)
        return deepcopy(parse(str(path), *args, **options))

    Config._file2dict = staticmethod(parse_once)


def write_plainly() -> None:
    """Write configs without line breaks in their values.

    yapf, which puts them in, takes half of the time of a tiny training: its text is in the folder
    of the run, the log, the file of TensorBoard and each checkpoint.
    """
    config.FormatCode = lambda text, **options: (ast.unparse(ast.parse(text)) + "\n", False)


def look_around_once() -> None:
    """Ask the system for its compilers and GPUs once a process, not by programs for each run."""
    runner.collect_env = cache(runner.collect_env)


def collect_rarely() -> None:
    """Look for garbage less often, as what is imported stays, and not for each dataset.

    ``conftest.clean_module`` looks after each module.
    """
    gc.set_threshold(20_000, 50, 100)
    base_dataset.gc = SimpleNamespace(collect=lambda: 0)
