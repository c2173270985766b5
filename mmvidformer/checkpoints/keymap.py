"""Key maps: rows of names with an operation, applied to a state dict; ``names.yml`` has them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import torch
import yaml
from torch import Tensor

from mmvidformer.checkpoints.operations import KEEP, Op, stack
from mmvidformer.errors import UserError
from mmvidformer.lookup import look_up

State = dict[str, Tensor]

# Wrappers of official code; the keys of a teacher and a student are in ``checkpoints.reading``.
OUTER_NAMES = ("module.", "_orig_mod.", "model.", "backbone.", "encoder.")


@dataclass(frozen=True)
class Rule:
    """One row of a key map: names in source and target, where ``{i}`` is the index of a block.

    The source may lack all names of an ``optional`` row.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    op: Op = KEEP
    optional: bool = False

    def reversed(self) -> "Rule":
        """Return the row from the targets to the sources."""
        op = Op(self.op.backward, self.op.forward)
        return Rule(self.targets, self.sources, op, self.optional)

    def unroll(self, keys: Iterable[str]) -> list["Rule"]:
        """Repeat the row for each block in ``keys``, at least once."""
        stem, number, end = self.sources[0].partition("{i}")
        if not number:
            return [self]

        def numbered(names: tuple[str, ...], i: int) -> tuple[str, ...]:
            return tuple(name.replace("{i}", str(i)) for name in names)

        # Blocks are counted, so that a gap results in missing and unknown names.
        return [
            replace(self, sources=numbered(self.sources, i), targets=numbered(self.targets, i))
            for i in range(max(count_blocks(keys, stem, end[0]), 1))
        ]


def count_blocks(names: Iterable[str], stem: str, end: str = ".") -> int:
    """Count the blocks of an encoder, whose names have a number between ``stem`` and ``end``."""
    pattern = re.compile(rf"{re.escape(stem)}(\d+){re.escape(end)}")
    return len({match[1] for match in map(pattern.match, names) if match})


@cache
def _tables() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name("names.yml").read_text(encoding="utf-8"))


def key_map(
    table: str, *sections: str, dialect: str = "", ops: Mapping[str, Op] | None = None, **parts: str
) -> list[Rule]:
    """Return the rows of sections of a table in ``names.yml``, from the column of a dialect.

    The latter is not needed if there is one column. See ``read_rows`` for ``ops`` and ``parts``.

    Raises:
        KeyError: If there is no such dialect.
    """
    content = _tables()[table]
    dialects = content.get("dialects", "").split()
    column = dialects.index(look_up(dialects, dialect, "dialect")) if dialects else 0
    rules: list[Rule] = []
    for section in sections:
        rules += read_rows(content[section], column, ops, parts)
    return rules


def read_rows(
    rows: Mapping[str, Any],
    column: int = 0,
    ops: Mapping[str, Op] | None = None,
    parts: Mapping[str, str] | None = None,
) -> list[Rule]:
    """Return the rules of rows that are written as in ``names.yml``, which says how.

    Args:
        rows: Names in the source by names in the target.
        column: Number of the column that is read.
        ops: Operations by first target. By default one tensor is kept, and several are stacked.
        parts: What ``$part`` stands for in the names.
    """
    parts, ops, rules = parts or {}, ops or {}, []
    for name, source in _flatten(rows, column):
        ours, theirs = (Template(text).substitute(parts) for text in (name.rstrip("?"), source))
        choices = (("weight", r"\1"), ("bias", r"\2")) if "*" in ours else (("", ""),)
        for parameter, choice in choices:
            targets = _expand(ours.replace("*", parameter))
            chosen = re.sub(r"(\w+)\|(\w+)", choice, theirs)
            sources = _expand(chosen.replace("*", parameter))
            op = KEEP if len(sources) == 1 else stack(len(sources))
            rules.append(Rule(sources, targets, ops.get(targets[0], op), name.endswith("?")))
    return rules


def _flatten(rows: Mapping[str, Any], column: int) -> Iterator[tuple[str, str]]:
    """Yield complete names of this package, and those in a column."""
    for name, value in rows.items():
        if isinstance(value, str):
            dialects = value.split()
            yield name, dialects[min(column, len(dialects) - 1)]
            continue
        inner = dict(_flatten(value, column))
        start = inner.pop("of", "")
        yield from ((f"{name}.{ours}", start + theirs) for ours, theirs in inner.items())


def _expand(name: str) -> tuple[str, ...]:
    """Return all names that one with a list in braces stands for."""
    braces = re.search(r"\{([\w.]+(?:,[\w.]+)+)\}", name)
    if braces is None:
        return (name,)
    before, after = name[: braces.start()], name[braces.end() :]
    return tuple(before + part + after for part in braces[1].split(","))


@dataclass
class Conversion:
    """Result of a converter.

    Args:
        state: Weights with the names of a recognizer, ``backbone.*`` and ``cls_head.*``, or with
            those of the format that they were converted to.
        ignored: Names of the source that were dropped on purpose.
        missing: Optional names of the target that the source has no weights for.
        notes: Assumptions of the converter.
        model: Class of the backbone; empty for an image model, or if unknown.
        scheme: Attention scheme of the model, likewise.
        num_heads: Number of attention heads; None if unknown.
        settings: Arguments of the backbone that the shapes of the weights do not tell.
        head: Arguments of the head that they do not tell.
        info: What is known of the data (``checkpoints.metadata``).
        rotary: Why an image model has rotary positions, of a kind that nothing tells. ``untold`` is
            what it may have.
    """

    state: State
    ignored: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    model: str = ""
    scheme: str | None = None
    num_heads: int | None = None
    settings: dict = field(default_factory=dict)
    head: dict = field(default_factory=dict)
    info: dict = field(default_factory=dict)
    rotary: str = ""
    untold: str = ""


def apply_rules(
    state: Mapping[str, Tensor], rules: Sequence[Rule], ignored: Sequence[str] = ()
) -> Conversion:
    """Convert a state dict by the rows of a key map; ``ignored`` are expressions of names to drop.

    Raises:
        UserError: If the source lacks a name of a row that is not optional, or has a name that
            is in no row and not ignored. The message lists both.
    """
    result = Conversion({})
    missing: list[str] = []
    rows: list[Rule] = []
    for row in (row for rule in rules for row in rule.unroll(state)):
        absent = [name for name in row.sources if name not in state]
        if row.optional and len(absent) == len(row.sources):
            result.missing.extend(row.targets)
        else:
            missing.extend(absent)
            rows.append(row)
    used = {name for row in rows for name in row.sources}
    left = [name for name in state if name not in used]
    unknown: list[str] = []
    for name in left:
        is_ignored = any(re.fullmatch(pattern, name) for pattern in ignored)
        (result.ignored if is_ignored else unknown).append(name)
    if missing or unknown:
        raise UserError(
            f"the checkpoint does not fit the key map: missing {_list(missing)}; "
            f"unknown {_list(unknown)}"
        )
    for row in rows:
        tensors = row.op.forward(*(state[name] for name in row.sources))
        for name, tensor in zip(row.targets, tensors, strict=True):
            # A view would save the memory of the whole source.
            result.state[name] = tensor.clone(memory_format=torch.contiguous_format)
    return result


def revert(state: Mapping[str, Tensor], rules: Sequence[Rule]) -> State:
    """Convert back, from the targets of rules to their sources; raises as ``apply_rules`` does."""
    return apply_rules(state, [rule.reversed() for rule in rules]).state


def has(state: Mapping[str, Tensor], *patterns: str, dim: int | None = None) -> bool:
    """Whether each expression is in a name, that of a tensor of ``dim`` axes if these are given."""
    names = [name for name, x in state.items() if dim in (None, x.dim())]
    return all(any(re.search(pattern, name) for name in names) for pattern in patterns)


def strip_prefixes(state: Mapping[str, Tensor], prefixes: Sequence[str] = OUTER_NAMES) -> State:
    """Remove prefixes from the names that have them, one after the other."""
    for prefix in prefixes:
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return dict(state)


def _list(names: list[str], most: int = 20) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)} names [{', '.join(names[:most])}{more}]"
