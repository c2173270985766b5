"""One csv file of a data set, for ``mmvidformer data list``, from the lists that it comes with.

    python -m benchmarks.real_lists FOLDER --out all.csv
    mmvidformer data list all.csv --task classes --out LISTS    # --folds 5, if there are no folds

FOLDER has one of these, and its csv file the columns that they state:

- ``folds/NAME_fold01_test.txt``, ...: lines of path and class, tested in this fold (``fold``);
  ``--name`` chooses the NAME;
- ``testlist01.txt``, ... and ``classInd.txt``, as UCF101 has them (``fold``); paths are below
  ``--videos``, which all videos of training lists are below, too;
- ``sources.csv`` (video, source) beside train.txt, val.txt and test.txt: sources are ``group``.

Kinetics' and Something-Something's own files are read by ``mmvidformer data list`` itself.
"""

import csv
import re
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from benchmarks.outputs import parse_with_results, with_suffixes

Rows = dict[str, dict[str, str]]  # columns of each video, by its path


def main(argv: Sequence[str] | None = None) -> int:
    """Write the csv file."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="*", help="of official folds, if there are several")
    parser.add_argument("--videos", type=Path, help="folder of the videos (default: FOLDER)")
    args = parse_with_results(parser, argv, with_suffixes(""))
    videos = args.videos or args.folder
    if (args.folder / "folds").is_dir():
        rows = read_official_folds(args.folder, args.name)
    elif (args.folder / "classInd.txt").exists():
        rows = read_ucf(args.folder)
    else:
        rows = read_sources(args.folder)
    columns = ["video", *next(iter(rows.values()))]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for path, row in rows.items():
            writer.writerow([(videos / path).absolute(), *row.values()])
    return 0


def read_official_folds(folder: Path, name: str) -> Rows:
    """Read in which fold each video is tested."""
    classes = (folder / "classes.txt").read_text(encoding="utf-8").splitlines()
    rows = {}
    for file in sorted((folder / "folds").glob(f"{name}_fold*_test.txt")):
        fold = re.findall(r"_fold(\d+)_test", file.name)[0]
        for line in file.read_text(encoding="utf-8").splitlines():
            path, label = line.rsplit(" ", 1)
            rows[path] = {"label": classes[int(label)], "fold": str(int(fold))}
    return rows


def read_ucf(folder: Path) -> Rows:
    """Read the three tests of UCF101; a video that none tests has no fold."""
    rows = {}
    for fold in ("1", "2", "3"):
        for split in ("test", "train"):
            file = folder / f"{split}list0{fold}.txt"
            for line in file.read_text(encoding="utf-8").splitlines():
                path = line.split(" ")[0]
                row = rows.setdefault(path, {"label": path.split("/")[0], "fold": ""})
                if split == "test":
                    row["fold"] = fold
    return rows


def read_sources(folder: Path) -> Rows:
    """Read the source video of each clip of three lists."""
    classes = (folder / "classes.txt").read_text(encoding="utf-8").splitlines()
    with (folder / "sources.csv").open(newline="", encoding="utf-8") as file:
        source_of = dict(list(csv.reader(file))[1:])
    rows = {}
    for split in ("train", "val", "test"):
        for line in (folder / f"{split}.txt").read_text(encoding="utf-8").splitlines():
            path, label = line.rsplit(" ", 1)
            rows[path] = {"label": classes[int(label)], "group": source_of[path]}
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
