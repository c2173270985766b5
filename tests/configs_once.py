"""The repository's configs are parsed once a process."""

from copy import deepcopy
from functools import cache
from pathlib import Path

from mmengine.config import Config

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
