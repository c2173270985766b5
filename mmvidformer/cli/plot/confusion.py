"""Draw the confusions of a test: mmvidformer plot confusion SCORES.npz --out-dir FOLDER.

SCORES.npz is the file of mmvidformer test --dump SCORES.npz. Writes a confusion matrix
(confusion.png), the accuracy of each class (class_accuracy.csv), and the videos that are classified
wrongly (wrong.csv), the surest errors first.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import ClassOptions, ForceOptions
from mmvidformer.engine.options import argument, option, parse_options
from mmvidformer.errors import UserError

WRITTEN = ("confusion.png", "class_accuracy.csv", "wrong.csv")


@dataclass(frozen=True)
class ConfusionOptions(ForceOptions, ClassOptions):
    """Scores, and the pictures of their errors."""

    scores: Path = argument("file of mmvidformer test --dump SCORES.npz", type=Path)
    out_dir: Path = option(
        "folder for the pictures", Path(), type=Path, required=True, metavar="FOLDER"
    )
    most: int = option("most classes to draw", 30, type=int)
    task: str | None = option("such as verb, if the head has several tasks")

    def _check(self) -> None:
        if self.most < 2:
            raise UserError(f"--most must be at least 2, got {self.most}")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    options = parse_options(ConfusionOptions, argv, __doc__)
    targets = [("--out-dir", options.out_dir / name) for name in WRITTEN]
    check_outputs(vars(options), targets, "out_dir")
    import numpy as np

    from mmvidformer.apis import class_names
    from mmvidformer.sinks.figures import save_figure
    from mmvidformer.sinks.scores import (
        count_confusions,
        draw_confusion,
        read_arrays,
        select_scores,
        write_wrong,
    )
    from mmvidformer.storage.atomic import open_rows

    scores = select_scores(read_arrays(options.scores), options.task, options.scores)
    counts = count_confusions(scores)
    task = options.task or "class"
    names = class_names({task: len(counts)}, options.classes, scores.classes)[task]
    videos, correct = counts.sum(axis=1), counts.diagonal()
    title = f"{options.scores.stem}: {correct.sum()} of {videos.sum()} videos correct"
    save_figure(
        draw_confusion(counts, names, title, options.most), options.out_dir / "confusion.png"
    )
    wrong = counts - np.diag(correct)
    with open_rows(options.out_dir / "class_accuracy.csv", options.force) as file:
        rows = csv.writer(file)
        rows.writerow(["class", "name", "videos", "correct", "most often predicted as", "times"])
        for i, (name, other) in enumerate(zip(names, wrong.argmax(axis=1), strict=True)):
            times = wrong[i, other]
            rows.writerow([i, name, videos[i], correct[i], names[other] if times else "", times])
    written = list(WRITTEN[:2])
    if scores.videos is not None:
        with open_rows(options.out_dir / "wrong.csv", options.force) as file:
            write_wrong(file, scores, names)
        written.append(WRITTEN[2])
    print(f"written: {', '.join(written)} in {options.out_dir}")
