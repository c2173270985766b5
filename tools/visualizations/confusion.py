"""Draw what a test confused: python tools/visualizations/confusion.py SCORES.npz --out-dir FOLDER.

SCORES.npz is what tools/test.py --dump SCORES.npz wrote. Writes a confusion matrix
(confusion.png), the accuracy of each class (class_accuracy.png), and both as a table
(class_accuracy.csv).
"""

import csv
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.engine.launch import run_tool
from mmvidformer.visualization import (
    count_confusions,
    draw_class_accuracy,
    draw_confusion,
    read_names,
    read_scores,
)


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path, help="from tools/test.py --dump SCORES.npz")
    parser.add_argument("--out-dir", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--names", type=Path, help="text file with a class name a line")
    parser.add_argument(
        "--most", type=int, default=30, help="classes in a picture, of more the worst (default 30)"
    )
    parser.add_argument("--task", help="such as verb, where the head has several tasks")
    parser.add_argument(
        "--label", type=int, default=0, help="place of the task's label among a video's (default 0)"
    )
    args = parser.parse_args(argv)
    if args.most < 2:
        parser.error(f"--most must be at least 2, got {args.most}")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Count, draw and save."""
    args = parse_args(argv)
    counts = count_confusions(read_scores(args.scores, args.task, args.label))
    names = (
        read_names(args.names, len(counts)) if args.names else list(map(str, range(len(counts))))
    )
    videos, right = counts.sum(axis=1), counts.diagonal()
    title = f"{args.scores.stem}: {right.sum()} of {videos.sum()} videos right"
    args.out_dir.mkdir(parents=True, exist_ok=True)
    matrix, bars, table = (
        args.out_dir / name
        for name in ("confusion.png", "class_accuracy.png", "class_accuracy.csv")
    )
    draw_confusion(counts, names, title, args.most).savefig(matrix)
    draw_class_accuracy(counts, names, title, args.most).savefig(bars)
    with open(table, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["class", "name", "videos", "right", "most often taken for", "times"])
        for i, row in enumerate(counts):
            wrong = row.copy()
            wrong[i] = 0
            other = wrong.argmax()
            rows.writerow(
                [
                    i,
                    names[i],
                    videos[i],
                    right[i],
                    names[other] if wrong[other] else "",
                    wrong[other],
                ]
            )
    print(f"{matrix}, {bars}, {table}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
