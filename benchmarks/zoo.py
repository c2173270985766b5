"""Model zoo: a row for each shipped config, as mim's metafile and as a page.

``python -m benchmarks.model_zoo`` writes both.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from mmengine.config import Config

from mmvidformer.analysis.complexity import count
from mmvidformer.analysis.published import PUBLISHED
from mmvidformer.config import clip_shape, frame_shape, is_recurrent

# Time steps that a recurrent config is counted for if its clips have no fixed length (the paper's
# order).
STEPS = 8

# Name: prefix of the configs, paper, its title, page.
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

This page is generated from the configs and `configs/metafile.yml` by
`python -m benchmarks.model_zoo`; do not edit it.

**Published** results are those of the papers and the official model zoos, read from the comments in
the configs. They were not measured here, and no trained weights are published with this package;
weights of the official projects can be [converted](checkpoints.md). **Parameters and MACs**
(multiply-accumulates of one view, which papers call FLOPs) are counted here in matrix
multiplications, convolutions and attention, classifier included. The models that were trained here
use [generated videos](#measured-here).

Views are the clips x crops of the config's test pipeline, T x H x W is the size of one view, and
fusion is what is averaged over views: `prob` for probabilities, `score` for logits. HORST is
recurrent: its MACs are those of the first T frames, including its frozen backbone.
"""

COMMANDS = """\
All configs are trained and tested with the same two commands ([data and options](running.md)):

```bash
tools/dist_train.sh configs/CONFIG.py 8
tools/dist_test.sh configs/CONFIG.py CHECKPOINT 8
```
"""

MEASURED = """\
## Measured here

Small models, trained from scratch on generated videos whose class is a motion, with two processes
on two CPU cores, and tested on 200 held-out clips with 4 x 3 views. Commands and more results, some
of them with several seeds: [motion data](motion_dataset.md#what-is-reached-on-it),
[TimeSformer's schemes](timesformer.md#ablation),
[feature fixation's parts](feature_fixation.md#on-the-motion-data-set).
"""


@dataclass(frozen=True)
class Entry:
    """Row of the zoo.

    Args:
        name: Name of the config.
        family: Key of ``FAMILIES``.
        what: Description, from the comment at the top of the config.
        published: Published results with their source, from the same comment; may be empty.
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
        text: Text of the config file.
        cfg: The config.
        views: Clips and crops of the test.

    Raises:
        ValueError: If the name has no family's prefix, or the comment at the top is missing.
    """
    family = next((key for key, row in FAMILIES.items() if name.startswith(row[0])), None)
    if family is None:
        prefixes = ", ".join(row[0] for row in FAMILIES.values())
        raise ValueError(f"names of configs must start with {prefixes}; got {name!r}")
    comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
    lines = [line[1:].strip() for line in comment]
    if not lines:
        raise ValueError(f"config {name!r} must start with a comment that describes it")
    lines = [line for line in lines if not line.startswith(("tools/", "bash ", "python "))]
    head = " ".join(lines).replace("|", "/")
    what, published = split_head(head)
    return Entry(
        name, family, what, published, f"{views[0]}x{views[1]}",
        cfg.model.cls_head.get("average_clips") or "-",
    )  # fmt: skip


def split_head(head: str) -> tuple[str, str]:
    """Split the comment of a config into its description and the published results."""
    remark = re.search(r"\s*\(not measured here\)", head)
    first = re.split(r"(?<=[a-z0-9\])])\. (?=[A-Z])", head)[0].rstrip(". ")
    if remark is None:
        return first, ""
    text = head[: remark.start()]
    source = re.search(r"(Paper|Official zoo)\b", text)
    if source is None:
        return first, ""
    return text[: source.start()].rstrip(". "), text[source.start() :].rstrip(". ")


def counted_shape(cfg: Config) -> tuple[int, int, int, int]:
    """Return the shape (3, T, H, W) that a config is counted for."""
    if not is_recurrent(cfg):
        return clip_shape(cfg)
    channels, height, width = frame_shape(cfg)
    return channels, cfg.model.cls_head.get("horizon", STEPS), height, width


def metadata(cfg: Config) -> dict[str, object]:
    """Return the counts of a config for the metafile."""
    size = count(cfg, counted_shape(cfg))
    view = "x".join(map(str, size.shape[1:]))
    return {"View": view, "Parameters": size.parameters, "MACs": size.macs}


def metafile(entries: list[Entry], counts: Mapping[str, Mapping[str, object]]) -> dict:
    """Return the content of mim's metafile.

    Args:
        entries: Rows.
        counts: Results of ``metadata`` by name.
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
    """Return the page of the zoo.

    Args:
        entries: Rows.
        meta: Content of the metafile.
        measured: Lines of a table with results that were measured here.
    """
    counts = {model["Name"]: model["Metadata"] for model in meta["Models"]}
    parts = [INTRO, COMMANDS]
    for family, (_, url, title, about) in FAMILIES.items():
        rows = [_row(e, counts[e.name]) for e in entries if e.family == family]
        parts.append(
            f"## {family}\n\n[{title}]({url}); [documentation]({about}).\n\n"
            "| config | description | published, not measured here | M params | G MACs "
            "| T x H x W | views, fusion |\n|---|---|---|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    parts.append(MEASURED + "\n" + "\n".join(measured) + "\n")
    return "\n".join(parts)


def _row(entry: Entry, counts: Mapping) -> str:
    size = PUBLISHED.get(entry.name)
    published = [entry.published] if entry.published else []
    if size is not None:
        known = [(size.parameters, "M parameters"), (size.macs, "G MACs")]
        sizes = ", ".join(f"{value:g} {unit}" for value, unit in known if value is not None)
        published.append(f"{size.source}: {sizes}")
    return (
        f"| `{entry.name}` | {entry.what} | {'; '.join(published) or '-'} "
        f"| {counts['Parameters'] / 1e6:.2f} | {counts['MACs'] / 1e9:.2f} "
        f"| {counts['View']} | {entry.views}, {entry.fusion} |"
    )


def measured_rows(text: str) -> list[str]:
    """Return the lines of the table of results in ``docs/motion_dataset.md``.

    Raises:
        ValueError: If the page has no such table.
    """
    found = re.search(r"(?m)^\| config \| seed \| top-1 \|\n(?:\|.*\n)+", text)
    if found is None:
        raise ValueError("the page must have a table with the columns config, seed, top-1")
    return found[0].splitlines()
