"""What an import or a look-up must not load."""

import ast
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mmvidformer.__main__ import COMMANDS
from tests.test_border import UNUSED, VIDEO

ROOT = Path(__file__).parents[1]
HEAVY = {
    "matplotlib",
    "mmaction.models",
    "mmvidformer.engine.fsdp",
    "sklearn",
    "timm",
    "torchvision",
}

REPAIRED = ("mmaction.datasets", "mmaction.evaluation", "mmaction.models")
# What each step of a plain PyTorch program loads, besides the standard library.
PLAIN = {
    "pass": None,  # Debian's Python loads its sitecustomize
    "import mmvidformer": {"mmvidformer"},
    "import torch, einops": None,
    "from mmvidformer.layers import Attention": set(),
    "import mmvidformer.models; mmvidformer.optimize_for_inference": set(),
}
# Steps that load MMEngine, or MMAction2, too.
FULL = (
    "import mmvidformer.registry",
    "from mmvidformer.models import ViViT",
    "import mmvidformer.apis",
    "import mmvidformer.apis.heat",
    "from mmvidformer.registry import HOOKS; HOOKS.get('mmvidformer.TrainingGuardHook')",
)


def modules_after(steps: tuple[str, ...]) -> list[set[str]]:
    """Names of all modules after each step in a new interpreter."""
    code = "import sys\n" + "".join(f"{step}; print(*sys.modules)\n" for step in steps)
    command = [sys.executable, "-W", "ignore", "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [{*line.split()} for line in printed.splitlines()]


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """Names of all modules after each step; they run one after another in one process."""
    return dict(zip((*PLAIN, *FULL), modules_after((*PLAIN, *FULL)), strict=True))


def test_layers_and_models_are_plain_pytorch(loaded: dict[str, set[str]]) -> None:
    before = {*sys.stdlib_module_names}
    for step, expected in PLAIN.items():
        projects = {name.partition(".")[0] for name in loaded[step] if not name.startswith("_")}
        assert expected is None or projects - before == expected, step
        before |= projects


def test_optional_parts_are_not_loaded(loaded: dict[str, set[str]]) -> None:
    for step, modules in loaded.items():
        assert not HEAVY & modules, step


def test_each_file_that_is_checked_or_encoded_loads_no_torch() -> None:
    """Each has a process of its own, whose imports would take longer than the work.

    The process also imports the main module of its parent, the command's.
    """
    names = "mmvidformer.video.check_files, mmvidformer.video.encode, mmvidformer.__main__"
    (loaded,) = modules_after((f"import {names}",))
    assert "av" in loaded and not {"torch", "mmengine", "cv2"} & loaded


@cache
def modules_of(name: str) -> list[str]:
    """The modules of this package that an import of a name runs: its parents come first."""
    parts = name.split(".")
    parents = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return [parent for parent in parents if file_of(parent).is_file()]


def file_of(name: str) -> Path:
    path = ROOT / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def names_in(module: str) -> list[str]:
    """Names that a module itself imports, in their order, and not within functions."""
    found: list[str] = []
    for node in ast.parse(file_of(module).read_text("utf-8")).body:
        names = [alias.name for alias in getattr(node, "names", ())]
        if isinstance(node, ast.ImportFrom):
            found += [node.module, *(f"{node.module}.{one}" for one in names)]
        elif isinstance(node, ast.Import):
            found += names
    return found


def imports(name: str, seen: set[str]) -> Iterator[str]:
    """Names that an import of a module of this package imports, in their order."""
    for module in modules_of(name):
        if module in seen:
            continue
        seen.add(module)
        yield module
        for one in names_in(module):
            if not one.startswith("mmvidformer"):
                yield one
            elif not seen.issuperset(modules_of(one)):
                yield from imports(one, seen)


def test_repairs_come_before_mmaction() -> None:
    """Without them some modules of MMAction2 cannot be imported."""
    for path in (ROOT / "mmvidformer").rglob("*.py"):
        if {"repairs", ".mim"} & {*path.parts}:
            continue
        order = [*imports(".".join(path.relative_to(ROOT).with_suffix("").parts), set())]
        repaired = order.index("mmvidformer.repairs") if "mmvidformer.repairs" in order else None
        theirs = [i for i, name in enumerate(order) if name.startswith(REPAIRED)]
        assert not theirs or repaired is not None and repaired < theirs[0], path


WORKER = f"""
import json, sys
import torch

# Also in the worker, which imports this script, after what is preloaded for all.
before = {{*sys.modules}}

def list_modules(samples):
    return [*{{*sys.modules}}]

if __name__ == "__main__":
    from multiprocessing import set_forkserver_preload

    from torch.utils.data import DataLoader

    from mmvidformer import get_config
    from mmvidformer.config.building import building
    from mmvidformer.data.bad_videos import SafeDataset
    from mmvidformer.data.workers import PRELOADED, init_worker
    from mmvidformer.registry import DATASETS

    cfg = get_config("vivit_fe_k400")
    videos = cfg.train_dataloader.dataset
    videos.update(ann_file="list.txt", data_prefix=dict(video=""))
    with open("list.txt", "w") as file:
        file.write({f"{VIDEO} 0"!r})
    with building(cfg):
        data = SafeDataset(DATASETS.build(videos))
    set_forkserver_preload(PRELOADED)
    loader = DataLoader(
        data,
        num_workers=1,
        collate_fn=list_modules,
        worker_init_fn=init_worker,
        multiprocessing_context="forkserver",
    )
    (loaded,) = loader
    print("\\n" + json.dumps([*{{*loaded}} - before]))
"""


def test_a_worker_loads_what_it_needs(tmp_path: Path) -> None:
    """Of other projects, beside PyTorch's modules and SciPy's version, which MMAction2 reads."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    modules = json.loads(done.stdout.splitlines()[-1])
    projects = {name.partition(".")[0] for name in modules}
    assert not projects & {*UNUSED, "sympy", "triton"} - {"scipy"}
    assert not {"mmengine.runner", "scipy.stats", "scipy.special"} & {*modules}
    assert sum(not name.startswith("mmvidformer") for name in modules) <= 650


def words_of_commands(commands: dict, *group: str) -> Iterator[list[str]]:
    """What is typed for each command."""
    for name, title in commands.items():
        if isinstance(title, dict):
            yield from words_of_commands(title, *group, name)
        else:
            yield [*group, name]


@pytest.fixture(scope="module")
def loaded_for_help(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Packages, but Python's own, that each command's ``--help`` loads; in one process."""
    code = """
        import json, multiprocessing, sys
        before = {*sys.modules}
        from mmvidformer.__main__ import main

        projects = {}
        for words in json.loads(sys.argv[1]):
            try:
                main([*words, "--help"])
            except SystemExit as end:
                assert not end.code
            names = {name.partition(".")[0] for name in {*sys.modules} - before}
            projects[" ".join(words)] = sorted(names - sys.stdlib_module_names - {"mmvidformer"})
        print("\\n" + json.dumps(projects))
    """
    commands = json.dumps([*words_of_commands(COMMANDS)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), commands],
        capture_output=True,
        text=True,
        cwd=tmp_path_factory.mktemp("help"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("words", [*words_of_commands(COMMANDS)], ids=" ".join)
def test_a_help_needs_python_alone(words: list[str], loaded_for_help: dict) -> None:
    """Neither PyTorch, NumPy nor any other package: it is there at once."""
    assert loaded_for_help[" ".join(words)] == []
