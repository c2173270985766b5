"""Key maps: rows of names with an operation, applied to a state dict."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

State = dict[str, Tensor]


@dataclass(frozen=True)
class Op:
    """Operation on the tensors of a row, and its inverse if the row works in both directions."""

    forward: Callable[..., tuple[Tensor, ...]]
    backward: Callable[..., tuple[Tensor, ...]] | None = None


KEEP = Op(lambda x: (x,), lambda x: (x,))
STACK_QKV = Op(lambda q, k, v: (torch.cat([q, k, v]),), lambda qkv: qkv.chunk(3))
STACK_PAIR = Op(lambda a, b: (torch.cat([a, b]),), lambda both: both.chunk(2))
ADD_TIME = Op(lambda kernel: (kernel[:, :, None],), lambda kernel: (kernel[:, :, 0],))


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
        """Return the row from the targets to the sources; the operation must have an inverse."""
        assert self.op.backward is not None, self.sources
        op = Op(self.op.backward, self.op.forward)
        return replace(self, sources=self.targets, targets=self.sources, op=op)

    def unroll(self, keys: Iterable[str]) -> list["Rule"]:
        """Repeat the row for each block in ``keys``, at least once."""
        stem, number, rest = self.sources[0].partition("{i}")
        if not number:
            return [self]
        pattern = re.compile(re.escape(stem) + r"(\d+)" + re.escape(rest[0]))
        blocks = {match[1] for match in map(pattern.match, keys) if match}
        rows = []
        # Blocks are counted, so that a gap results in missing and unknown names.
        for i in map(str, range(max(len(blocks), 1))):
            sources, targets = (
                tuple(name.replace("{i}", i) for name in side)
                for side in (self.sources, self.targets)
            )
            rows.append(replace(self, sources=sources, targets=targets))
        return rows


# Parts of a block with joint attention, as timm names them, and this package's names.
BLOCK = {
    "norm1": "sublayers.joint.norm",
    "attn.qkv": "sublayers.joint.attn.qkv",
    "attn.proj": "sublayers.joint.attn.proj",
    "norm2": "norm",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
STACKS = {1: KEEP, 2: STACK_PAIR, 3: STACK_QKV}
Names = str | tuple[str, ...]


def linear(sources: Names, target: str, op: Op | None = None, optional: bool = False) -> list[Rule]:
    """Return the rows for weight and bias of a PyTorch layer; see ``Rule``.

    Names are without ``.weight`` and ``.bias``; those in the source may have ``{kind}`` in the
    place of weight and bias. By default, several sources are stacked.
    """
    sources = (sources,) if isinstance(sources, str) else sources
    patterns = [source if "{kind}" in source else source + ".{kind}" for source in sources]
    op = op or STACKS[len(sources)]
    return [
        Rule(
            tuple(p.replace("{kind}", kind) for p in patterns), (f"{target}.{kind}",), op, optional
        )
        for kind in ("weight", "bias")
    ]


def part_rules(source: str, target: str, parts: Mapping[str, Names]) -> list[Rule]:
    """Return the rows for the layers of a block; ``parts`` are sources by target or timm's name."""
    rules = []
    for part, names in parts.items():
        names = (names,) if isinstance(names, str) else names
        given = tuple(f"{source}.{name}" for name in names)
        rules += linear(given, f"{target}.{BLOCK.get(part, part)}")
    return rules


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
        info: What is known of the data (``convert.info``).
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


def apply_rules(
    state: Mapping[str, Tensor], rules: Sequence[Rule], ignored: Sequence[str] = ()
) -> Conversion:
    """Convert a state dict by the rows of a key map; ``ignored`` are expressions of names to drop.

    Raises:
        ValueError: If the source lacks a name of a row that is not optional, or has a name that
            is in no row and not ignored. The message lists both.
    """
    result = Conversion({})
    left = dict.fromkeys(state)
    missing: list[str] = []
    for row in (row for rule in rules for row in rule.unroll(state)):
        absent = [name for name in row.sources if name not in state]
        if not absent:
            tensors = row.op.forward(*(state[name] for name in row.sources))
            for name, tensor in zip(row.targets, tensors, strict=True):
                # A view would save the memory of the whole source.
                result.state[name] = tensor.clone(memory_format=torch.contiguous_format)
            for name in row.sources:
                left.pop(name, None)
        elif row.optional and len(absent) == len(row.sources):
            result.missing.extend(row.targets)
        else:
            missing.extend(absent)
    result.ignored = [name for name in left if any(re.fullmatch(p, name) for p in ignored)]
    unknown = [name for name in left if name not in set(result.ignored)]
    if missing or unknown:
        raise ValueError(
            f"the checkpoint does not fit the key map: missing {_list(missing)}; "
            f"unknown {_list(unknown)}"
        )
    return result


def strip_prefixes(state: Mapping[str, Tensor], prefixes: Sequence[str]) -> State:
    """Remove prefixes from the names that have them, one after the other."""
    out = dict(state)
    for prefix in prefixes:
        out = {name.removeprefix(prefix): value for name, value in out.items()}
    return out


def _list(names: list[str], most: int = 20) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)} names [{', '.join(names[:most])}{more}]"
