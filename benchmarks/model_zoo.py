"""Write docs/model_zoo.md, configs/metafile.yml, and how many rows docs/papers.md has.

python -m benchmarks.model_zoo

Configs that are already in the metafile are not counted again, unless --recount is given.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import yaml
from mmengine.config import Config
from tqdm import tqdm

import mmvidformer
from benchmarks.model_zoo_texts import INTRO, PUBLISHED_WEIGHTS
from lab.papers.rows import count_rows, list_rows, read_paper
from mmvidformer.apis.complexity import count
from mmvidformer.checkpoints import published
from mmvidformer.config import view_shape
from mmvidformer.errors import UserError

ROOT = Path(__file__).resolve().parents[1]

# Family: prefixes of its configs, the file of its paper's rows (if any), its page.
FAMILIES = {
    "ViViT": (("vivit_",), "vivit", "vivit.md"),
    "TimeSformer": (("timesformer_",), "timesformer", "timesformer.md"),
    "Feature fixation": (("feature_fixation_",), "feature_fixation", "feature_fixation.md"),
    "HORST": (("horst_",), "horst", "horst.md"),
    "VideoMAE and V-JEPA": (("videomae", "vjepa2_"), None, "checkpoints.md"),
    "Encoders of 2024 to 2026": (
        ("levjepa_", "internvideo_next_", "onevision_", "videoprism_", "streamformer_", "trecvit_"),
        None,
        "checkpoints.md",
    ),
    "Compositions": (("compose_", "causal_"), None, "compose.md"),
    "Camera motion": (("camera_",), None, "camera_motion.md"),
}

ROWS_BLOCK = re.compile(r"(<!-- rows -->\n).*?(<!-- end of rows -->)", re.DOTALL)
SMALL = (
    "_motion"  # end of the names of small configs for generated videos, which the page leaves out
)


def family_of(name: str) -> str:
    """Return the family of a config: a key of ``FAMILIES``.

    Raises:
        UserError: If the name has no family's prefix.
    """
    for family, (prefixes, _, _) in FAMILIES.items():
        if name.startswith(prefixes):
            return family
    known = ", ".join(prefix for row in FAMILIES.values() for prefix in row[0])
    raise UserError(f"names of configs must start with {known}; got {name!r}")


def metadata(cfg: Config) -> dict[str, object]:
    """Return the counts of a config for the metafile."""
    size = count(cfg, view_shape(cfg))
    view = "x".join(map(str, size.shape[1:]))
    return {"View": view, "Parameters": size.parameters, "MACs": size.macs}


def metafile(counts: Mapping[str, Mapping[str, object]]) -> dict:
    """Return the content of mim's metafile.

    Args:
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
            "Name": name,
            "Config": f"configs/{name}.py",
            "In Collection": family_of(name),
            "Metadata": dict(counts[name]),
            **({"Weights": weights[name]} if name in weights else {}),
        }
        for name in mmvidformer.list_models()
    ]
    return {"Collections": collections, "Models": models}


def zoo_page(meta: Mapping) -> str:
    """Return the page: the configs of full size, and those with published weights.

    Args:
        meta: Content of the metafile.
    """
    weights = published.by_name()
    columns = "config", "T x H x W", "M params", "G MACs", "published weights", "license"
    lines = [
        _cells(model, weights.get(model["Name"]))
        for model in meta["Models"]
        if model["Name"] in weights or not model["Name"].endswith(SMALL)
    ]
    return "\n".join([INTRO, _table(columns, lines), PUBLISHED_WEIGHTS])


def _table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(model: Mapping, row: published.Published | None) -> list[str]:
    counts = model["Metadata"]
    size = f"{counts['Parameters'] / 1e6:.1f}", f"{counts['MACs'] / 1e9:.1f}"
    accuracy = (row.accuracy or "yes").partition(" with ")[0] if row else "-"
    license_name = (row.license or "unknown") if row else "-"
    return [f"`{model['Name']}`", counts["View"], *size, accuracy, license_name]


def fill_counts(page: str) -> str:
    """Return a page with its table of the numbers of rows updated."""
    names = {family: file for family, (_, file, _) in FAMILIES.items() if file}
    counts = {family: count_rows(list_rows([file])) for family, file in names.items()}
    counts["all"] = count_rows(list_rows())
    lines = [[family, *map(str, astuple(numbers))] for family, numbers in counts.items()]
    text = _table(["paper", "rows", "can be run", "in miniature"], lines)
    return ROWS_BLOCK.sub(lambda mark: mark[1] + text + mark[2], page)


def build(recount: bool = False) -> dict[Path, str]:
    """Return the texts of the metafile and of the pages."""
    file = ROOT / "configs" / "metafile.yml"
    old = yaml.safe_load(file.read_text()) if file.exists() and not recount else {"Models": []}
    counts = {model["Name"]: model["Metadata"] for model in old["Models"]}
    for name in tqdm(mmvidformer.list_models(), disable=None, desc="configs"):
        if name not in counts:
            counts[name] = metadata(mmvidformer.get_config(name))
    meta = metafile(counts)
    header = "# Written by python -m benchmarks.model_zoo.\n"
    papers = ROOT / "docs" / "papers.md"
    return {
        file: header + yaml.safe_dump(meta, sort_keys=False),
        ROOT / "docs" / "model_zoo.md": zoo_page(meta),
        papers: fill_counts(papers.read_text()),
    }


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
