"""The model zoo: a row for each shipped config, as mim's metafile and as a page."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mmengine.config import Config

from mmvidformer.analysis.complexity import count
from mmvidformer.analysis.published import PUBLISHED
from mmvidformer.config import clip_shape, is_recurrent

# Steps that a recurrent config is counted for where its clips have no fixed length: the paper's
# order.
STEPS = 8

# name: (prefix of its configs, paper, its title, page)
FAMILIES = {
    "ViViT": (
        "vivit_",
        "https://arxiv.org/abs/2103.15691",
        "ViViT: A Video Vision Transformer",
        "vivit.md",
    ),
    "TimeSformer": (
        "timesformer_",
        "https://arxiv.org/abs/2102.05095",
        "Is Space-Time Attention All You Need for Video Understanding?",
        "timesformer.md",
    ),
    "Feature fixation": (
        "feature_fixation_",
        "https://arxiv.org/abs/2210.08164",
        "Linear Video Transformer with Feature Fixation",
        "feature_fixation.md",
    ),
    "HORST": (
        "horst_",
        "https://arxiv.org/abs/2104.08665",
        "Higher Order Recurrent Space-Time Transformer for Video Action Prediction",
        "horst.md",
    ),
}

INTRO = """\
# Model zoo

This page is written by `python -m benchmarks.model_zoo` from the configs and
`configs/metafile.yml`; do not edit it.

**Published** figures are the papers' and the official zoos' own, read from the heads of the
configs. None of them was measured here, and no trained weights are published with this package;
weights of the official projects can be [converted](checkpoints.md). **Parameters and MACs**
(multiply-accumulates of one view, which papers call FLOPs) are counted here, without computing
anything: matrix products, convolutions and attention, the classifier included. What was trained
here is on [generated videos](#measured-here).

Views are clips x crops of the config's test pipeline, T x H x W is one view, and fusion is what is
averaged over views: `prob` for probabilities, `score` for logits. HORST goes from frame to frame:
its MACs are those of T frames, from the first one on, its frozen backbone included.
"""

COMMANDS = """\
Every row trains and tests by the same two commands, with the name of the config in place of
`CONFIG` ([data and options](running.md)):

```bash
tools/dist_train.sh configs/CONFIG.py 8
tools/dist_test.sh configs/CONFIG.py CHECKPOINT 8
```
"""

MEASURED = """\
## Measured here

Small models, trained from scratch on generated videos whose class is a motion, two processes on
two CPU cores, 200 held-out clips with 4 x 3 views. Commands and further figures, with several seeds
where there are any: [motion data](motion_dataset.md#what-is-reached-on-it),
[TimeSformer's schemes](timesformer.md#ablation),
[feature fixation's parts](feature_fixation.md#on-the-motion-data-set).
"""


@dataclass(frozen=True)
class Entry:
    """A row of the zoo.

    Args:
        name: Name of the config.
        family: Key of ``FAMILIES``.
        what: What the config is, from its head.
        published: The figures of others that its head names, with their source; or empty.
        views: Clips x crops of the test.
        fusion: What is averaged over views.
    """

    name: str
    family: str
    what: str
    published: str
    views: str
    fusion: str


def read_entry(name: str, text: str, cfg: Config, views: tuple[int, int]) -> Entry:
    """Read a row of the zoo.

    Args:
        name: Name of the config.
        text: Its file, with the comment at its head.
        cfg: The config.
        views: Clips and crops of its test.

    Raises:
        ValueError: If no family's prefix fits, or the head is missing.
    """
    family = next((key for key, row in FAMILIES.items() if name.startswith(row[0])), None)
    if family is None:
        prefixes = ", ".join(row[0] for row in FAMILIES.values())
        raise ValueError(f"config {name!r} belongs to no family; names begin with {prefixes}")
    lines = [line[1:].strip() for line in re.match(r"(#.*\n)*", text)[0].splitlines()]
    if not lines:
        raise ValueError(f"config {name!r} has no comment at its head that says what it is")
    lines = [line for line in lines if not line.startswith(("tools/", "bash ", "python "))]
    head = " ".join(lines).replace("|", "/")
    what, published = split_head(head)
    return Entry(
        name, family, what, published, f"{views[0]}x{views[1]}",
        cfg.model.cls_head.get("average_clips") or "-",
    )  # fmt: skip


def split_head(head: str) -> tuple[str, str]:
    """Split a config's head into what the config is, and the figures of others."""
    theirs = re.search(r"\s*(\((theirs|their own)\b|Both are theirs|\(not measured here)", head)
    first = re.split(r"(?<=[a-z0-9\])])\. (?=[A-Z])", head)[0].rstrip(". ")
    if theirs is None:
        return first, ""
    said = head[: theirs.start()]
    source = re.search(r"(Paper|Official zoo|A row of the paper)\b", said)
    if source is None:
        return first, ""
    return said[: source.start()].rstrip(". "), said[source.start() :].rstrip(". ")


def counted_shape(cfg: Config) -> tuple[int, int, int, int]:
    """The view (3, T, H, W) that a config is counted for."""
    if not is_recurrent(cfg):
        return clip_shape(cfg)
    steps = cfg.model.cls_head.get("horizon", STEPS)
    pipeline = cfg.test_dataloader.dataset.pipeline
    sized = [step for step in pipeline if "crop_size" in step or "scale" in step][-1]
    if "crop_size" in sized:
        return 3, steps, sized["crop_size"], sized["crop_size"]
    width, height = sized["scale"]
    return 3, steps, height, width


def metadata(cfg: Config) -> dict[str, object]:
    """Counts of a config, as its metafile has them."""
    size = count(cfg, counted_shape(cfg))
    view = "x".join(map(str, size.shape[1:]))
    return {"View": view, "Parameters": size.parameters, "MACs": size.macs}


def metafile(entries: list[Entry], counts: Mapping[str, Mapping[str, object]]) -> dict:
    """The content of mim's metafile.

    Args:
        entries: Rows.
        counts: What ``metadata`` gives, by name.
    """
    collections = [
        {"Name": family, "Paper": {"URL": url, "Title": title}, "README": f"docs/{page}"}
        for family, (_, url, title, page) in FAMILIES.items()
    ]
    models = [
        {
            "Name": entry.name,
            "Config": f"configs/{entry.name}.py",
            "In Collection": entry.family,
            "Metadata": dict(counts[entry.name]),
        }
        for entry in entries
    ]
    return {"Collections": collections, "Models": models}


def page(entries: list[Entry], meta: Mapping, measured: list[str]) -> str:
    """The page of the zoo.

    Args:
        entries: Rows.
        meta: Content of the metafile.
        measured: Lines of a table of figures that were measured here.
    """
    counts = {model["Name"]: model["Metadata"] for model in meta["Models"]}
    parts = [INTRO, COMMANDS]
    for family, (_, url, title, about) in FAMILIES.items():
        rows = [_row(e, counts[e.name]) for e in entries if e.family == family]
        parts.append(
            f"## {family}\n\n[{title}]({url}); [its page here]({about}).\n\n"
            "| config | what | published (theirs, not measured here) | M params | G MACs "
            "| T x H x W | views, fusion |\n|---|---|---|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    parts.append(MEASURED + "\n" + "\n".join(measured) + "\n")
    return "\n".join(parts)


def _row(entry: Entry, counts: Mapping) -> str:
    size = PUBLISHED.get(entry.name)
    said = [entry.published] if entry.published else []
    if size is not None:
        known = [(size.parameters, "M parameters"), (size.macs, "G MACs")]
        figures = ", ".join(f"{value:g} {unit}" for value, unit in known if value is not None)
        said.append(f"{size.source}: {figures}")
    return (
        f"| `{entry.name}` | {entry.what} | {'; '.join(said) or '-'} "
        f"| {counts['Parameters'] / 1e6:.2f} | {counts['MACs'] / 1e9:.2f} "
        f"| {counts['View']} | {entry.views}, {entry.fusion} |"
    )


def measured_rows(text: str) -> list[str]:
    """The table of what configs reached, from ``docs/motion_dataset.md``.

    Raises:
        ValueError: If the page has no such table.
    """
    found = re.search(r"(?m)^\| config \| seed \| top-1 \|\n(?:\|.*\n)+", text)
    if found is None:
        raise ValueError("the page has no table with the columns config, seed, top-1")
    return found[0].splitlines()
