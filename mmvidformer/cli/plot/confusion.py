"""Draw the errors of a test: mmvidformer plot confusion SCORES.npz --out-dir FOLDER.

SCORES.npz is the file of mmvidformer test --dump SCORES.npz. Writes a confusion matrix
(confusion.png), the accuracy of each class (class_accuracy.png), and both as a table
(class_accuracy.csv).
"""

import csv
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.metrics import confusion_matrix

from mmvidformer.apis import class_names
from mmvidformer.engine.arguments import add_classes_argument
from mmvidformer.visualization.plots import draw_class_accuracy, draw_confusion, read_scores


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path, help="file of mmvidformer test --dump SCORES.npz")
    parser.add_argument("--out-dir", type=Path, required=True, help="folder for the pictures")
    add_classes_argument(parser)
    parser.add_argument("--most", type=int, default=30, help="most classes to draw (default: 30)")
    parser.add_argument("--task", help="such as verb, if the head has several tasks")
    args = parser.parse_args(argv)
    if args.most < 2:
        parser.error(f"--most must be at least 2, got {args.most}")
    scores, labels, known = read_scores(args.scores, args.task)
    counts = confusion_matrix(labels, scores.argmax(axis=1), labels=range(scores.shape[1]))
    task = args.task or "class"
    names = class_names({task: len(counts)}, args.classes, known)[task]
    videos, correct = counts.sum(axis=1), counts.diagonal()
    title = f"{args.scores.stem}: {correct.sum()} of {videos.sum()} videos correct"
    args.out_dir.mkdir(parents=True, exist_ok=True)
    draw_confusion(counts, names, title, args.most).savefig(args.out_dir / "confusion.png")
    bars = draw_class_accuracy(counts, names, title, args.most)
    bars.savefig(args.out_dir / "class_accuracy.png")
    wrong = counts - np.diag(correct)
    with open(args.out_dir / "class_accuracy.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["class", "name", "videos", "correct", "most often predicted as", "times"])
        for i, (name, other) in enumerate(zip(names, wrong.argmax(axis=1), strict=True)):
            times = wrong[i, other]
            rows.writerow([i, name, videos[i], correct[i], names[other] if times else "", times])
    print(f"written: confusion.png, class_accuracy.png and class_accuracy.csv in {args.out_dir}")
