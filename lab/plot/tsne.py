"""Draw features of videos: python -m lab plot tsne FEATURES LIST --out FILE.

FEATURES is the folder that mmvidformer features --files wrote for the videos of LIST, a list in
MMAction2's format. The features are embedded in the plane by t-SNE (van der Maaten & Hinton, JMLR
2008). An .npz beside the picture holds features, labels and points.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from sklearn.manifold import TSNE

from mmvidformer.data.lists import read_list
from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.errors import UserError
from mmvidformer.sinks.figures import save_figure, without_formulas
from mmvidformer.storage.atomic import write_atomically


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path, metavar="FEATURES", help="folder of .npy files")
    parser.add_argument("list", type=Path, metavar="LIST", help="list of videos and labels")
    parser.add_argument(
        "--out", type=Path, required=True, help="picture (.png, .pdf, .svg)", metavar="FILE"
    )
    parser.add_argument(
        "--max-videos", type=int, help="number to choose at random (default: all)", metavar="N"
    )
    parser.add_argument(
        "--perplexity", type=float, default=30, help="of t-SNE (default: 30)", metavar="NUMBER"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the choice and of t-SNE", metavar="N"
    )
    parser.add_argument("--classes", type=Path, help="class names, one per line (default: numbers)")
    add_options(parser, ForceOptions)
    args = parser.parse_args(argv)
    table = args.out.with_suffix(".npz")
    check_outputs(vars(args), [("--out", args.out), ("the table of --out", table)], "out")
    entries = read_list(args.list)
    chosen = np.random.default_rng(args.seed).permutation(len(entries))[: args.max_videos]
    entries = [entries[i] for i in np.sort(chosen)]
    if not 0 < args.perplexity < len(entries):
        raise UserError(
            f"--perplexity must be positive and below the number of videos, {len(entries)}; got "
            f"{args.perplexity:g}"
        )
    if not all(len(line.labels) == 1 for line in entries):
        raise UserError(f"each line of {args.list} must have one label after the video's path")
    labels = np.array([line.labels[0] for line in entries])
    names = list(map(str, range(labels.max() + 1)))
    if args.classes:
        names = args.classes.read_text(encoding="utf-8").splitlines()
        if len(names) <= labels.max():
            raise UserError(f"{args.classes} has {len(names)} names, for labels to {labels.max()}")
    files = (args.features / f"{path.lstrip('/')}.npy" for _, path, _ in entries)
    features = np.stack([np.load(file) for file in files])
    embed = TSNE(perplexity=args.perplexity, init="pca", random_state=args.seed)
    points = embed.fit_transform(features)
    figure = draw_classes(points, labels, names, f"{args.list}: {len(labels)} videos")
    save_figure(figure, args.out, bbox_inches="tight")
    with write_atomically(table) as part, part.open("wb") as file:
        np.savez(file, features=features, labels=labels, points=points)
    print(f"written: {args.out}, {table}")


def draw_classes(
    points: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str = "", most: int = 20
) -> Figure:
    """Draw points (N, 2) colored by class (N,), with a legend.

    The ``most`` frequent classes have colors and names, the others are gray.
    """
    classes, counts = np.unique(labels, return_counts=True)
    common = np.sort(classes[np.argsort(-counts, kind="stable")[:most]])
    colors = colormaps["tab10" if len(common) <= 10 else "tab20"].colors
    figure = Figure(figsize=(8, 6.5), dpi=120, layout="constrained")
    axes = figure.add_subplot(title=title, xticks=[], yticks=[], aspect="equal")
    if len(common) < len(classes):
        name = f"{len(classes) - len(common)} other classes"
        axes.scatter(*points[~np.isin(labels, common)].T, s=10, color="0.8", label=name)
    for i, label in enumerate(common):
        color = colors[i % len(colors)]
        axes.scatter(*points[labels == label].T, s=18, color=color, label=names[label])
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9, markerscale=1.5)
    return without_formulas(figure)
