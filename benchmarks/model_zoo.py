"""Write docs/model_zoo.md and configs/metafile.yml: python -m benchmarks.model_zoo.

Configs that are already in the metafile are not counted again, unless --recount is given.
"""

import argparse
import sys
from pathlib import Path

import yaml
from tqdm import tqdm

import mmvidformer
from benchmarks import zoo
from mmvidformer.engine.views import get_views

ROOT = Path(__file__).resolve().parents[1]


def build(recount: bool = False) -> tuple[str, str]:
    """Return the metafile and the page as text."""
    file = ROOT / "configs" / "metafile.yml"
    old = yaml.safe_load(file.read_text()) if file.exists() and not recount else {"Models": []}
    counts = {model["Name"]: model["Metadata"] for model in old["Models"]}
    entries = []
    for name in tqdm(mmvidformer.list_models(), disable=None, desc="configs"):
        cfg = mmvidformer.get_config(name)
        text = (ROOT / "configs" / f"{name}.py").read_text()
        entries.append(zoo.read_entry(name, text, cfg, get_views(cfg)))
        if name not in counts:
            counts[name] = zoo.metadata(cfg)
    meta = zoo.metafile(entries, counts)
    measured = zoo.measured_rows((ROOT / "docs" / "motion_dataset.md").read_text())
    header = "# Written by python -m benchmarks.model_zoo.\n"
    return header + yaml.safe_dump(meta, sort_keys=False), zoo.page(entries, meta, measured)


def main() -> int:
    """Write the files, or check whether they are up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recount", action="store_true", help="count all configs again")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if a file is out of date"
    )
    args = parser.parse_args()
    targets = (ROOT / "configs" / "metafile.yml", ROOT / "docs" / "model_zoo.md")
    status = 0
    for path, text in zip(targets, build(args.recount), strict=True):
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
