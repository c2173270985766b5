"""Show the errors of a test as a page: mmvidformer plot errors SCORES.npz --out errors.html.

SCORES.npz is the file of mmvidformer test --dump SCORES.npz. The page has frames of the videos that
were answered wrongly, the worst first, and opens without a network.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import check_outputs, positive
from mmvidformer.engine.model_options import ClassOptions, ForceOptions
from mmvidformer.engine.options import argument, option, parse_options


@dataclass(frozen=True)
class ErrorOptions(ForceOptions, ClassOptions):
    """Scores, and the page of their errors."""

    scores: Path = argument("file of mmvidformer test --dump SCORES.npz", type=Path)
    out: Path = option("the page", Path(), type=Path, required=True, metavar="FILE.html")
    top: int = option("most errors to show", 20, type=positive)
    task: str | None = option("such as verb, if the head has several tasks")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    options = parse_options(ErrorOptions, argv, __doc__)
    check_outputs(vars(options), [("--out", options.out)], "out")
    from mmvidformer.apis import class_names
    from mmvidformer.sinks.errors import find_mistakes, make_page
    from mmvidformer.sinks.scores import classes_of, read_arrays
    from mmvidformer.storage.atomic import write_atomically

    arrays = read_arrays(options.scores)
    count, known = classes_of(arrays, options.task)
    task = options.task or "class"
    names = class_names({task: count}, options.classes, known)[task]
    mistakes = find_mistakes(arrays, names, options.task, options.scores)
    shown = mistakes[: options.top]
    bad, videos = arrays["bad_videos"], arrays["videos"]
    summary = f"{len(mistakes)} errors of {len({*videos.tolist()})} videos"
    if len(shown) < len(mistakes):
        summary += f"; the {len(shown)} worst are here"
    if bad.any():
        summary += f"; {len({*videos[bad].tolist()})} videos could not be read"
    title = f"Errors of {options.scores.stem}"
    page = make_page(title, shown, summary, options.out.parent)
    with write_atomically(options.out) as part:
        part.write_text(page, encoding="utf-8")
    print(f"{summary}; written: {options.out}")
