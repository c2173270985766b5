"""Draw the errors of a test: mmvidformer plot confusion SCORES.npz --out-dir FOLDER.

SCORES.npz is the file of mmvidformer test --dump SCORES.npz. Writes a confusion matrix
(confusion.png), the accuracy of each class (class_accuracy.png), both as a table
(class_accuracy.csv), and the videos that are classified wrongly (wrong.csv), the surest errors
first.
"""

import csv
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
from sklearn.metrics import confusion_matrix

from mmvidformer.apis import class_names
from mmvidformer.engine.arguments import add_force_argument, check_outputs
from mmvidformer.engine.model_options import ClassOptions
from mmvidformer.engine.options import add_options
from mmvidformer.sinks.figures import save_figure
from mmvidformer.storage.atomic import open_rows
from mmvidformer.visualization.plots import Scores, draw_class_accuracy, draw_confusion, read_scores

WRITTEN = ("confusion.png", "class_accuracy.png", "class_accuracy.csv", "wrong.csv")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path, help="file of mmvidformer test --dump SCORES.npz")
    parser.add_argument(
        "--out-dir", type=Path, required=True, help="folder for the pictures", metavar="FOLDER"
    )
    add_options(parser, ClassOptions)
    parser.add_argument(
        "--most", type=int, default=30, help="most classes to draw (default: 30)", metavar="N"
    )
    parser.add_argument("--task", help="such as verb, if the head has several tasks")
    add_force_argument(parser)
    args = parser.parse_args(argv)
    check_outputs(vars(args), [("--out-dir", args.out_dir / name) for name in WRITTEN], "out_dir")
    if args.most < 2:
        parser.error(f"--most must be at least 2, got {args.most}")
    scores = read_scores(args.scores, args.task)
    predicted = scores.values.argmax(axis=1)
    counts = confusion_matrix(scores.labels, predicted, labels=range(scores.values.shape[1]))
    task = args.task or "class"
    names = class_names({task: len(counts)}, args.classes, scores.classes)[task]
    videos, correct = counts.sum(axis=1), counts.diagonal()
    title = f"{args.scores.stem}: {correct.sum()} of {videos.sum()} videos correct"
    save_figure(draw_confusion(counts, names, title, args.most), args.out_dir / "confusion.png")
    bars = draw_class_accuracy(counts, names, title, args.most)
    save_figure(bars, args.out_dir / "class_accuracy.png")
    wrong = counts - np.diag(correct)
    with open_rows(args.out_dir / "class_accuracy.csv", args.force) as file:
        rows = csv.writer(file)
        rows.writerow(["class", "name", "videos", "correct", "most often predicted as", "times"])
        for i, (name, other) in enumerate(zip(names, wrong.argmax(axis=1), strict=True)):
            times = wrong[i, other]
            rows.writerow([i, name, videos[i], correct[i], names[other] if times else "", times])
    written = list(WRITTEN[:3])
    if scores.videos is not None:
        with open_rows(args.out_dir / "wrong.csv", args.force) as file:
            write_wrong(file, scores, names)
        written.append(WRITTEN[3])
    print(f"written: {', '.join(written)} in {args.out_dir}")


def write_wrong(file: TextIO, scores: Scores, names: Sequence[str]) -> None:
    """Write a row for each video whose prediction is not its class, the surest errors first."""
    every = np.arange(len(scores.labels))
    predicted = scores.values.argmax(axis=1)
    of_label, of_prediction = scores.values[every, scores.labels], scores.values[every, predicted]
    order = np.argsort(of_label - of_prediction, kind="stable")
    rows = csv.writer(file)
    rows.writerow(["video", "class", "predicted", "score of class", "score of predicted"])
    for i in order[predicted[order] != scores.labels[order]]:
        pair = names[scores.labels[i]], names[predicted[i]]
        rows.writerow([scores.videos[i], *pair, f"{of_label[i]:.4f}", f"{of_prediction[i]:.4f}"])
