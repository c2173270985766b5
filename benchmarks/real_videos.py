"""Methods of fine-tuning on folds of real labelled videos.

    python -m benchmarks.real_videos FOLDER --out FOLDER [--config FILE] [--methods NAME ...]

FOLDER has videos and their lists: official folds as folds/NAME_foldNN_train.txt and _test.txt, or
train.txt, val.txt and test.txt. With sources.csv (video, source), five folds keep the videos of a
source together. Features are computed once. A method learns of the training part of a fold alone.
"""

import csv
import json
import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from sklearn.model_selection import StratifiedGroupKFold

from mmvidformer.cli import finetune
from mmvidformer.engine.tables import print_table
from mmvidformer.finetune.baseline import NAME, try_baseline
from mmvidformer.finetune.tally import Tally

CONFIG = str(Path(__file__).with_name("real_videos_config.py"))
Fold = tuple[str, list[str], list[str]]  # name of the set, lines of training and of test


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of features and results")
    parser.add_argument("--config", default=CONFIG)
    parser.add_argument("--methods", nargs="+", default=["temporal", "linear", "knn"])
    parser.add_argument("--seed", type=int, default=0, help="of folds that are drawn")
    parser.add_argument("--cfg-options", nargs="+", default=[], help="overrides of the config")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run all folds; print the table and write it to OUT/real_videos.csv."""
    args = parse_args(argv)
    totals: dict[tuple[str, str], tuple[list[Tally], float]] = {}  # and seconds
    for number, (name, train, test) in enumerate(read_folds(args.folder, args.seed)):
        data = args.out / "folds" / str(number)
        write_fold(args.folder, data, train, test)
        for method in (NAME, *args.methods):
            start = time.perf_counter()
            tally = run_method(args, method, data, train, test)
            tallies, seconds = totals.get((name, method), ([], 0.0))
            totals[name, method] = [*tallies, tally], seconds + time.perf_counter() - start
            print(f"fold {number} of {name}, {method}: {tally}", flush=True)
    rows = []
    for (name, method), (tallies, seconds) in totals.items():
        rows.append([name, method, str(Tally.pool(tallies)), f"{seconds / 60:.1f}"])
    print_table(["set", "method", "top-1", "minutes"], rows, file=args.out / "real_videos.csv")
    return 0


def read_folds(folder: Path, seed: int) -> Iterator[Fold]:
    """Yield official folds, those by source, or the one of the lists."""
    official = sorted((folder / "folds").glob("*_train.txt"))
    for train in official:
        test = train.with_name(train.name.replace("_train", "_test"))
        name = re.sub(r"_fold\d+_train", "", train.stem)
        yield name, _lines(train), _lines(test)
    if official:
        return
    lines = []
    for split in ("train", "val", "test"):
        lines += _lines(folder / f"{split}.txt")
    sources = folder / "sources.csv"
    if not sources.exists():
        yield folder.name, _lines(folder / "train.txt"), _lines(folder / "test.txt")
        return
    with sources.open(newline="", encoding="utf-8") as file:
        source_of = dict(list(csv.reader(file))[1:])
    paths, labels = zip(*(line.rsplit(" ", 1) for line in lines), strict=True)
    groups = [source_of[path] for path in paths]
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=seed)
    for train, test in folds.split(paths, labels, groups):
        yield folder.name, [lines[row] for row in train], [lines[row] for row in test]


def write_fold(folder: Path, data: Path, train: Sequence[str], test: Sequence[str]) -> None:
    """Write the lists of a fold, beside links to the videos."""
    data.mkdir(parents=True, exist_ok=True)
    for name in {line.split("/", 1)[0] for line in (*train, *test)}:
        link = data / name
        if not link.is_symlink():
            link.symlink_to((folder / name).absolute())
    (data / "classes.txt").write_text((folder / "classes.txt").read_text())
    for split, lines in (("train", train), ("val", []), ("test", test)):
        (data / f"{split}.txt").write_text("".join(f"{line}\n" for line in lines))


def run_method(
    args: Namespace, method: str, data: Path, train: Sequence[str], test: Sequence[str]
) -> Tally:
    """Return which of the test videos of a fold a method told right."""
    if method == NAME:
        answers = try_baseline(_rows(data, train), _rows(data, test))
        return Tally.of(answers or {}, {})
    work_dir = args.out / "runs" / f"{data.name}_{method}"
    options = ["--config", args.config, "--data", str(data), "--method", method, "--force"]
    options += ["--work-dir", str(work_dir)]
    if method in finetune.PROBES:
        options += ["--features", str((args.out / "features").absolute())]
    if args.cfg_options:
        options += ["--cfg-options", *args.cfg_options]
    if status := finetune.main(options):
        raise SystemExit(status)
    result = json.loads((work_dir / "finetune" / "result.json").read_text())
    return Tally.read(result["tally"])


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def _rows(data: Path, lines: Sequence[str]) -> list[tuple[Path, int]]:
    rows = []
    for line in lines:
        path, label = line.rsplit(" ", 1)
        rows.append((data / path, int(label)))
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
