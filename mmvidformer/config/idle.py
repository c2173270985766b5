"""Variables of a config that change nothing, since MMEngine runs its bases first."""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from mmengine.config import Config
from mmengine.config.utils import ConfigParsingError
from mmengine.fileio import load

# Arguments of MMEngine's ``Runner``, which takes a second to import.
SETTINGS = {
    *("model", "data_preprocessor", "work_dir", "load_from", "resume", "launcher", "cfg"),
    *("train_dataloader", "val_dataloader", "test_dataloader", "val_evaluator", "test_evaluator"),
    *("train_cfg", "val_cfg", "test_cfg", "auto_scale_lr", "optim_wrapper", "param_scheduler"),
    *("default_hooks", "custom_hooks", "env_cfg", "default_scope", "randomness"),
    *("log_processor", "log_level", "visualizer", "experiment_name"),
}
# For each base of MMAction2, MMEngine reads all of its metafiles.
_find_path = cache(Config._get_cfg_path)


def idle_variables(path: str, overrides: Iterable[str] = ()) -> list[str]:
    """Find variables of a config that change nothing.

    A base may build its dataloaders from ``data_root``, say. Whoever sets that afterwards, in a
    config that inherits it or as an override, does not change the dataloaders.

    Args:
        path: Config file.
        overrides: Overrides by dotted key, to be checked in place of the variables of the files.

    Returns:
        A description of each.
    """
    try:
        chain = _chain(path)
        uses = _uses(chain)
    except (OSError, SyntaxError, ConfigParsingError):  # MMEngine's {{...}}, which is no Python
        return []
    if overrides:
        names = {key.partition(".")[0] for key in overrides} & uses.keys()
        idle = [("--cfg-options", name, _built_from(name, uses)) for name in sorted(names)]
    else:
        idle = [variable for file in chain for variable in _find_idle(file, chain)]
    return [
        f"{where}: {name} has no effect, since {', '.join(sorted(settings))} was built from the "
        "old value; change that instead"
        for where, name, settings in idle
        if settings
    ]


def _find_idle(file: str, chain: Sequence[str]) -> Iterator[tuple[str, str, set[str]]]:
    """Yield variables of a file of a chain that its bases used before, and what they built."""
    read_by_heirs: set[str] = set()
    for heir in chain:
        if file in _chain(heir)[1:]:
            read_by_heirs = read_by_heirs.union(*_uses_of(heir).values())
    set_here = _uses_of(file)
    set_before = _uses(_chain(file)[1:])
    read_here: set[str] = set().union(*set_here.values())
    for name in sorted((set_here.keys() & set_before.keys()) - read_here):
        settings = _built_from(name, set_before) - set_here.keys()
        if f"_base_.{name}" in read_by_heirs or not settings:
            continue
        value = Config.fromfile(file).get(name)
        values_before = [Config.fromfile(base).get(name, value) for base in _bases(file)]
        if any(before != value for before in values_before):
            yield file, name, settings


def _bases(file: str) -> list[str]:
    names = Config._get_base_files(file)
    return [os.path.normpath(_find_path(name, file)[0]) for name in names]


def _chain(file: str) -> list[str]:
    """Return a config file, its bases, and theirs."""
    return [file, *(path for base in _bases(file) for path in _chain(base))]


def _uses(files: Iterable[str]) -> dict[str, set[str]]:
    """Return names that files set, each with the names that were read for it, in any of them."""
    uses: dict[str, set[str]] = {}
    for file in files:
        for name, read in _uses_of(file).items():
            names_read = {variable.removeprefix("_base_.") for variable in read}
            uses.setdefault(name, set()).update(names_read)
    return uses


def _uses_of(file: str) -> dict[str, set[str]]:
    """Return names that a file sets, each with what was read for it: ``x``, ``_base_.x``."""
    of_bases = r"_base_\.\w+"
    text = Path(file).read_text(encoding="utf-8")
    if not file.endswith(".py"):
        return {name: set(re.findall(of_bases, text)) for name in load(file)}
    uses: dict[str, set[str]] = {}
    for statement in ast.parse(text).body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        read |= set(re.findall(of_bases, ast.unparse(statement)))
        written = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        written.add(getattr(statement, "name", ""))  # of a function
        for name in written - {"_base_"}:
            uses.setdefault(name, set()).update(read - {"_base_"})
    return uses


def _built_from(name: str, uses: Mapping[str, set[str]]) -> set[str]:
    """Return the settings of a run that were built from a variable, unless it is one itself."""
    reached, count = {name}, 0
    while len(reached) > count:
        count = len(reached)
        reached |= {target for target, read in uses.items() if read & reached}
    return set() if name in SETTINGS else reached & SETTINGS
