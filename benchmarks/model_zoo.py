"""Write docs/model_zoo*.md, configs/metafile.yml, and how many rows docs/papers.md has.

python -m benchmarks.model_zoo

Configs that are already in the metafile are not counted again, unless --recount is given.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import takewhile
from pathlib import Path

import yaml
from mmengine.config import Config
from tqdm import tqdm

import mmvidformer
from benchmarks.model_zoo_texts import INTRO, MEASURED, PUBLISHED_WEIGHTS, ROWS
from mmvidformer.checkpoints import published
from mmvidformer.config import view_shape
from mmvidformer.config.rows import Row, Table, count_rows, list_rows, read_paper
from mmvidformer.engine.pipelines import get_views
from mmvidformer.papers.complexity import count

ROOT = Path(__file__).resolve().parents[1]

# Family: prefixes of its configs, the file of its paper's rows (if any), its page.
FAMILIES = {
    "ViViT": (("vivit_",), "vivit", "vivit.md"),
    "TimeSformer": (("timesformer_",), "timesformer", "timesformer.md"),
    "Feature fixation": (("feature_fixation_",), "feature_fixation", "feature_fixation.md"),
    "HORST": (("horst_",), "horst", "horst.md"),
    "VideoMAE and V-JEPA": (("videomae", "vjepa2_"), None, "checkpoints.md"),
    "Encoders of 2024 to 2026": (
        ("videoprism_", "streamformer_", "trecvit_"),
        None,
        "checkpoints.md",
    ),
    "Compositions": (("compose_", "causal_transformer_"), None, "compose.md"),
    "Camera motion": (("camera_",), None, "camera_motion.md"),
}

ROWS_BLOCK = re.compile(r"(<!-- rows -->\n).*?(<!-- end of rows -->)", re.DOTALL)
COSTS = ("params", "macs", "tflops", "ms", "vps", "hours", "clips")  # no accuracies


@dataclass(frozen=True)
class Entry:
    """A config of the zoo.

    Args:
        name: Name of the config.
        family: Key of ``FAMILIES``.
        what: Description, from the comment at the top of the config.
        published: Published results, from the rows with this config.
        views: Clips x crops of the test.
        fusion: What is averaged over views.
    """

    name: str
    family: str
    what: str
    published: str
    views: str
    fusion: str


def read_entry(name: str, text: str, cfg: Config) -> Entry:
    """Read a config of the zoo.

    Args:
        name: Name of the config.
        text: Text of the config file.
        cfg: The config.

    Raises:
        ValueError: If the name has no family's prefix, or the comment at the top is missing.
    """
    family = next((key for key, row in FAMILIES.items() if name.startswith(row[0])), None)
    if family is None:
        prefixes = ", ".join(prefix for row in FAMILIES.values() for prefix in row[0])
        raise ValueError(f"names of configs must start with {prefixes}; got {name!r}")
    lines = [line[1:].strip() for line in takewhile(is_comment, text.splitlines())]
    comment = " ".join(
        line for line in lines if not line.startswith(("mmvidformer ", "bash ", "--"))
    )
    if not comment:
        raise ValueError(f"config {name!r} must start with a comment that describes it")
    rows = [row for row in list_rows() if row.config == name and all(map(is_of_tests, row.options))]
    return Entry(
        name, family, first_sentence(comment), results(rows), "x".join(map(str, get_views(cfg))),
        cfg.model.cls_head.get("average_clips") or "-",
    )  # fmt: skip


def is_of_tests(key: str) -> bool:
    """Whether an override changes tests only."""
    return key.startswith("test_")


def is_comment(line: str) -> bool:
    """Whether a line of a config is a comment."""
    return line.startswith("#")


def first_sentence(text: str) -> str:
    """First sentence of a text, for a cell of a table."""
    return re.split(r"(?<=[a-z0-9\])])\. (?=[A-Z])", text)[0].rstrip(". ").replace("|", "/")


def results(rows: list[Row]) -> str:
    """Published accuracies of rows, each with its table."""
    parts = []
    for row in rows:
        values = [f"{k} {v:g}" for k, v in row.published.items() if k not in COSTS]
        if values:
            parts.append(f"{row.name.split('/')[1]}: {', '.join(values)}")
    return "; ".join(parts)


def metadata(cfg: Config) -> dict[str, object]:
    """Return the counts of a config for the metafile."""
    size = count(cfg, view_shape(cfg))
    view = "x".join(map(str, size.shape[1:]))
    return {"View": view, "Parameters": size.parameters, "MACs": size.macs}


def metafile(entries: list[Entry], counts: Mapping[str, Mapping[str, object]]) -> dict:
    """Return the content of mim's metafile.

    Args:
        entries: Configs.
        counts: Results of ``metadata`` by name.
    """
    collections = []
    for family, (_, file, page) in FAMILIES.items():
        paper = read_paper(file) if file else None
        link = {"Paper": {"URL": paper.url, "Title": paper.title}} if paper else {}
        collections.append({"Name": family, **link, "README": f"docs/{page}"})
    weights = {
        row.name: row.address
        for row in published.rows()
        if row.name == row.config and row.address.startswith("http")
    }
    models = [
        {
            "Name": entry.name,
            "Config": f"configs/{entry.name}.py",
            "In Collection": entry.family,
            "Metadata": dict(counts[entry.name]),
            **({"Weights": weights[entry.name]} if entry.name in weights else {}),
        }
        for entry in entries
    ]
    return {"Collections": collections, "Models": models}


def pages(entries: list[Entry], meta: Mapping, measured: list[str]) -> dict[str, str]:
    """Return the pages of the zoo by name: all configs, and the rows of each paper.

    Args:
        entries: Configs.
        meta: Content of the metafile.
        measured: Lines of a table with results that were measured here.
    """
    counts = {model["Name"]: model["Metadata"] for model in meta["Models"]}
    parts, papers = [INTRO], {}
    for family, (_, file, about) in FAMILIES.items():
        paper = read_paper(file) if file else None
        name = f"model_zoo_{file}.md"
        source = f"[{paper.title}]({paper.url}); [rows]({name}); " if paper else ""
        parts.append(f"## {family}\n\n{source}[documentation]({about}).\n")
        columns = "config", "description", "published", "M params", "G MACs", "T x H x W"
        lines = [_cells(e, counts[e.name]) for e in entries if e.family == family]
        parts.append(_table([*columns, "views, fusion"], lines))
        if paper:
            tables = [f"## {t.name}: {t.title}\n\n{_rows(t)}" for t in paper.tables.values()]
            papers[name] = "\n".join([ROWS.format(family=family, **vars(paper)), *tables])
    titles = "`published://`", "config", "accuracy", "license", "classes", "check", "verified"
    parts += [PUBLISHED_WEIGHTS, _table(titles, map(_published_cells, published.rows()))]
    parts.append(MEASURED + "\n" + "\n".join(measured) + "\n")
    return {"model_zoo.md": "\n".join(parts), **papers}


def _table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _published_cells(row: published.Published) -> list[str]:
    config = f"`{row.config}`" if row.config else f"`{row.address}`"
    cells = [config, row.accuracy, row.license or "unknown", row.classes]
    cells += ["yes" if row.check else "", row.verified]
    return [f"`{row.name}`", *(cell or "-" for cell in cells)]


def _cells(entry: Entry, counts: Mapping) -> list[str]:
    size = f"{counts['Parameters'] / 1e6:.2f}", f"{counts['MACs'] / 1e9:.2f}", counts["View"]
    name = f"`{entry.name}`"
    return [name, entry.what, entry.published or "-", *size, f"{entry.views}, {entry.fusion}"]


def _rows(table: Table) -> str:
    """Published figures of a table, and its remarks."""
    rows = table.rows.values()
    published = list(dict.fromkeys(key for row in rows for key in row.published))
    lines = []
    for row in rows:
        figures = [f"{row.published[k]:g}" if k in row.published else "" for k in published]
        remark = f"not to be run: {row.missing}" if row.missing else row.note
        lines.append([f"`{row.name.split('/')[2]}`", row.title, *figures, remark.replace("|", "/")])
    note = f"{table.note}\n\n" if table.note else ""
    return note + _table(["row", "", *published, "remark"], lines)


def fill_counts(page: str) -> str:
    """Return a page with its table of the numbers of rows updated."""
    names = {family: file for family, (_, file, _) in FAMILIES.items() if file}
    counts = {family: count_rows(list_rows([file])) for family, file in names.items()}
    counts["all"] = count_rows(list_rows())
    lines = [[family, *map(str, astuple(numbers))] for family, numbers in counts.items()]
    text = _table(["paper", "rows", "can be run", "in miniature"], lines)
    return ROWS_BLOCK.sub(lambda mark: mark[1] + text + mark[2], page)


def measured_rows(text: str) -> list[str]:
    """Return the lines of the table of results in ``docs/motion_dataset.md``.

    Raises:
        ValueError: If the page has no such table.
    """
    table = re.search(r"(?m)^\| config \| seed \| top-1 \|\n(?:\|.*\n)+", text)
    if table is None:
        raise ValueError("the page must have a table with the columns config, seed, top-1")
    return table[0].splitlines()


def build(recount: bool = False) -> dict[Path, str]:
    """Return the texts of the metafile and of the pages."""
    file = ROOT / "configs" / "metafile.yml"
    old = yaml.safe_load(file.read_text()) if file.exists() and not recount else {"Models": []}
    counts = {model["Name"]: model["Metadata"] for model in old["Models"]}
    entries = []
    for name in tqdm(mmvidformer.list_models(), disable=None, desc="configs"):
        cfg = mmvidformer.get_config(name)
        text = (ROOT / "configs" / f"{name}.py").read_text()
        entries.append(read_entry(name, text, cfg))
        if name not in counts:
            counts[name] = metadata(cfg)
    meta = metafile(entries, counts)
    measured = measured_rows((ROOT / "docs" / "motion_dataset.md").read_text())
    header = "# Written by python -m benchmarks.model_zoo.\n"
    texts = {file: header + yaml.safe_dump(meta, sort_keys=False)}
    for name, text in pages(entries, meta, measured).items():
        texts[ROOT / "docs" / name] = text
    papers = ROOT / "docs" / "papers.md"
    texts[papers] = fill_counts(papers.read_text())
    return texts


def main() -> int:
    """Write the files, or check whether they are up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recount", action="store_true", help="count all configs again")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if a file is out of date"
    )
    args = parser.parse_args()
    status = 0
    for path, text in build(args.recount).items():
        if path.exists() and path.read_text() == text:
            continue
        if args.check:
            print(f"{path.relative_to(ROOT)} is out of date; run python -m benchmarks.model_zoo")
            status = 1
        else:
            path.write_text(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
