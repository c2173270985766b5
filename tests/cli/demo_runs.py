"""The demo in this process."""

import json
from pathlib import Path


def read_lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def demo(main_of, model, source, *options) -> int:
    return main_of("demo")([*model, str(source), *map(str, options)])
