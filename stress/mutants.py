"""Change operators and constants one at a time, and count the changes that no test notices.

    python -m stress.mutants layers models convert evaluation --count 300 --out mutants.csv

Each change of a sample is tested in a fork: the tests of its module first, then those of its room,
until one fails. Processes that tests start import the unchanged module. The csv file has a line per
change: module, line, change, outcome, seconds. The same command resumes after a stop. Needs a
system with fork (Linux, macOS).
"""

import argparse
import ast
import contextlib
import copy
import csv
import importlib.abc
import importlib.machinery
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tqdm import tqdm

# Imported once, before the forks.
for name in (
    "mmengine.runner",
    "timm",
    "torch._dynamo",
    "transformers",
    "scipy.stats",
    "hypothesis",
):
    importlib.import_module(name)

ROOT = Path(__file__).parents[1]
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.USub: ast.UAdd,
}  # fmt: skip
SKIPPED = (ast.Raise, ast.Assert, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.JoinedStr)


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Nodes below ``node`` that can be changed, outside of annotations and messages."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, SKIPPED):
                continue
            if isinstance(child, ast.BinOp | ast.BoolOp | ast.UnaryOp):
                if type(child.op) in OPERATORS and not union_of_types(child):
                    yield child, type(child.op).__name__
            elif isinstance(child, ast.Compare) and len(child.ops) == 1:
                yield child, type(child.ops[0]).__name__
            elif isinstance(child, ast.Constant) and isinstance(child.value, bool | int | float):
                yield child, repr(child.value)
            yield from changes(child)


def union_of_types(node: ast.AST) -> bool:
    """Whether an operator joins types or strings, rather than numbers."""
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(node))


def change(node: ast.AST) -> None:
    """Change an operator or a constant in place."""
    if isinstance(node, ast.Constant):
        value = node.value
        node.value = not value if isinstance(value, bool) else value + 1
    elif isinstance(node, ast.Compare):
        node.ops = [OPERATORS[type(node.ops[0])]()]
    else:
        node.op = OPERATORS[type(node.op)]()


def candidates(rooms: list[str]) -> list[tuple[Path, int]]:
    """Files of the rooms, with the number of each possible change."""
    places = []
    for room in rooms:
        path = ROOT / "mmvidformer" / room
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            tree = ast.parse(file.read_text())
            places += [(file, number) for number, _ in enumerate(changes(tree))]
    return places


def mutate(file: Path, number: int) -> tuple[ast.Module, int, str]:
    """The module with a change, its line, and what was changed."""
    tree = copy.deepcopy(ast.parse(file.read_text()))
    node, what = list(changes(tree))[number]
    line, before = node.lineno, ast.unparse(node)
    change(node)
    return ast.fix_missing_locations(tree), line, f"{before} -> {ast.unparse(node)} ({what})"


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed tree."""

    def __init__(self, name: str, file: Path, tree: ast.Module) -> None:
        self.name, self.file, self.tree = name, file, tree

    def find_spec(self, name: str, path: object, target: object = None) -> object:
        """Return a spec for the changed module only."""
        if name != self.name:
            return None
        is_package = self.file.name == "__init__.py"
        spec = importlib.machinery.ModuleSpec(
            name, self, origin=str(self.file), is_package=is_package
        )
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [str(self.file.parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        exec(compile(self.tree, str(self.file), "exec"), vars(module))


def tests_of(file: Path) -> list[str]:
    """Tests of a module, then those of its room."""
    parts = file.relative_to(ROOT / "mmvidformer").with_suffix("").parts
    nearest = sorted((ROOT / "tests" / parts[0]).rglob(f"test_{parts[-1].strip('_')}*.py"))
    return [str(path) for path in [*nearest, ROOT / "tests" / parts[0]] if path.exists()]


def survives(file: Path, tree: ast.Module, limit: float) -> str:
    """Run the tests in a fork: 'killed', 'survived' or 'timeout'."""
    child = os.fork()
    if child == 0:
        os.setsid()
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        sys.meta_path.insert(0, Finder(name, file, tree))
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), 1)
            os.dup2(null.fileno(), 2)
        code = 1
        with contextlib.suppress(BaseException):
            code = pytest.main(
                [*tests_of(file), "-x", "-p", "no:cacheprovider", "-p", "no:randomly"]
            )
        os._exit(int(code != 0))
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def main() -> None:
    """Test the sample and print the share of changes that were noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="+", help="folders or modules of the package")
    parser.add_argument("--count", type=int, default=300, help="number of changes")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a change")
    parser.add_argument("--out", type=Path, required=True, help="csv file")
    args = parser.parse_args()
    sample = candidates(args.rooms)
    random.Random(args.seed).shuffle(sample)
    rows = list(csv.reader(args.out.open())) if args.out.exists() else []
    for file, number in tqdm(sample[len(rows) : args.count], disable=None):
        tree, line, what = mutate(file, number)
        start = time.monotonic()
        outcome = survives(file, tree, args.limit)
        seconds = f"{time.monotonic() - start:.0f}"
        rows.append([str(file.relative_to(ROOT)), str(line), what, outcome, seconds])
        with args.out.open("a", newline="") as out:
            csv.writer(out).writerow(rows[-1])
    alive = [row for row in rows if row[3] == "survived"]
    print(f"{len(rows)} changes, {len(rows) - len(alive)} noticed, {len(alive)} not:")
    for row in alive:
        print(*row, sep="  ")


if __name__ == "__main__":
    main()
