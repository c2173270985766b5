"""The card of a shared model, ``README.md``: what it is, what was measured, what is not known."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmengine.config import Config
from torch import nn

import mmvidformer
from mmvidformer.config import pipelines, view_shape
from mmvidformer.tasks.table import task_of

CARD = "README.md"
LIBRARY, PIPELINE = "mmvidformer", "video-classification"  # words by which the hub filters
UNKNOWN = "not known"
# Folders of the machine that measured, which are nobody's business: all but the last name.
FOLDERS = re.compile(r"(?<![\w.:/])(~|[A-Za-z]:)?[/\\](?:[^\s/\\'\"=,]+[/\\])*(?=[^\s/\\'\"=,])")
SHOWN = 50  # names of classes


@dataclass(frozen=True)
class Figure:
    """A figure that was measured. What is not known is empty.

    Attributes:
        metric: Its name, such as ``acc/top1``.
        value: What was measured.
        split: The list: ``'validation'`` or ``'test'``.
        data: The data set, or the name of its folder.
        interval: The 95% interval.
        count: Number of videos.
        beside: What needs no model, by name.
        command: The command line.
        processor: The processor or GPU.
        date: As ``2026-11-29``.
    """

    metric: str
    value: float
    split: str
    data: str = ""
    interval: Sequence[float] | None = None
    count: int | None = None
    beside: Mapping[str, float] = field(default_factory=dict)
    command: str = ""
    processor: str = ""
    date: str = ""


@dataclass(frozen=True)
class Facts:
    """What a card says beside what the model knows of itself. What is not known is empty.

    Attributes:
        license: License of the weights, as the hub writes it, such as ``'apache-2.0'``.
        start: Weights that training started from.
        data: What it was trained on.
        figures: What was measured.
    """

    license: str = ""
    start: str = ""
    data: str = ""
    figures: Sequence[Figure] = ()


def make_card(
    name: str,
    cfg: Config,
    model: nn.Module,
    names: Mapping[str, Sequence[str]],
    facts: Facts,
    in_transformers: bool,
) -> str:
    """Write a card in Markdown, with the metadata by which the hub finds a model.

    Args:
        name: Name of the model.
        cfg: Its config.
        model: The recognizer.
        names: Class names by task.
        facts: What was measured and stated.
        in_transformers: Whether transformers loads the folder.
    """
    from huggingface_hub import EvalResult, ModelCardData  # takes a while

    results = [
        EvalResult(
            task_type=PIPELINE,
            dataset_type=figure.data or UNKNOWN,
            dataset_name=figure.data or UNKNOWN,
            dataset_split=figure.split,
            metric_type="accuracy" if figure.metric == "acc/top1" else figure.metric,
            metric_value=round(figure.value, 4),
        )
        for figure in facts.figures
    ]
    metadata = ModelCardData(
        license=facts.license or "unknown",
        library_name=LIBRARY,
        pipeline_tag=PIPELINE,
        tags=["video", "transformers"] if in_transformers else ["video"],
        model_name=name if results else None,
        eval_results=results or None,
    )
    lines = ["---", metadata.to_yaml(), "---", f"# {name}", ""]
    task = task_of(cfg, model.cls_head)
    count = sum(map(len, names.values()))
    noun = "classes" if task.activation else "values"
    lines += [f"A {type(model.backbone).__name__} for the task `{task.name}`, with {count} {noun}."]
    lines += [*_usage(in_transformers), *_reading(cfg, task.part), *_classes(names, noun)]
    lines += _figures(facts.figures)
    lines += ["", "## Where it comes from", "", "| | |", "|---|---|"]
    stated = {"license": facts.license, "started from": facts.start, "trained on": facts.data}
    lines += [_row(key, FOLDERS.sub("", value) or UNKNOWN) for key, value in stated.items()]
    lines += [_row("other uses, biases and risks", UNKNOWN), ""]
    return "\n".join(lines)


def _row(*cells: object) -> str:
    texts = [" ".join(str(cell).replace("|", "\\|").split()) for cell in cells]
    return f"| {' | '.join(texts)} |"


def _usage(in_transformers: bool) -> Iterator[str]:
    yield from ("", "## Use", "", "```python", "from mmvidformer.apis import Recognizer", "")
    yield 'recognizer = Recognizer.from_pretrained(".")  # this folder, or hf://ORG/NAME'
    yield 'for answer in recognizer.answers("video.mp4"):'
    yield from ("    print(answer.row())", "```", "")
    yield f"Written by mmvidformer {mmvidformer.__version__}."
    if in_transformers:
        yield "`AutoModelForVideoClassification` of transformers loads it, too."


def _reading(cfg: Config, part: str) -> Iterator[str]:
    """Say how videos are read."""
    yield from ("", "## Reading of videos", "", "| | |", "|---|---|")
    dataset = (cfg.get("test_dataloader") or cfg.get("val_dataloader") or {}).get("dataset", {})
    steps = [step for pipeline in pipelines(dataset) for step in pipeline]
    sampler = next((step for step in steps if "clip_len" in step), {})
    frames, interval = sampler.get("clip_len"), sampler.get("frame_interval")
    rate = sampler.get("target_fps")
    yield _row("frames of a clip", frames or UNKNOWN)
    yield _row("interval, in frames", interval or "spread over the video")
    seconds = f"{frames * interval / rate:.3g}" if frames and interval and rate else None
    yield _row("seconds of a clip", seconds or "depends on the video")
    clips = sampler.get("num_clips", 1) if part == "windows" else f"as many as its {part} need"
    yield _row("clips of a video", clips or "as many as cover it")
    _, _, height, width = view_shape(cfg)
    yield _row("size of a frame, in pixels", f"{height} x {width}")
    pixels: Mapping[str, Any] = cfg.model.get("data_preprocessor") or {}
    for name in ("mean", "std"):
        yield _row(f"{name} of pixels, of 0 to 255", pixels.get(name) or UNKNOWN)
    yield _row("order of colors", "BGR" if pixels.get("to_rgb") else "RGB")


def _classes(names: Mapping[str, Sequence[str]], noun: str) -> Iterator[str]:
    yield from ("", f"## {noun.title()}", "")
    for task, labels in names.items():
        shown = ", ".join(labels[:SHOWN])
        more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
        title = f"{task}: " if len(names) > 1 else ""
        yield f"- {title}{' '.join(shown.split())}{more}"


def _figures(figures: Sequence[Figure]) -> Iterator[str]:
    yield from ("", "## Measured", "")
    if not figures:
        yield "Nothing was measured."
        return
    yield _row("data", "split", "metric", "value", "95% interval", "videos", "without a model")
    yield "|---|---|---|---|---|---|---|"
    for figure in figures:
        low_high = " to ".join(f"{end:.3f}" for end in figure.interval or ())
        beside = ", ".join(f"{name} {value:.3f}" for name, value in figure.beside.items())
        place = (figure.data or UNKNOWN, figure.split, figure.metric, f"{figure.value:.3f}")
        count = UNKNOWN if figure.count is None else figure.count
        yield _row(*place, low_high or UNKNOWN, count, beside or UNKNOWN)
    yield ""
    if any(figure.split == "validation" for figure in figures):
        yield "The validation list may have chosen the checkpoint, too: further videos tell more."
        yield ""
    measurements = {(figure.date, figure.processor, figure.command): "" for figure in figures}
    for date, processor, command in measurements:
        yield f"- Date: {date or UNKNOWN}. Processor: {processor or UNKNOWN}. Command:"
        yield f"  `{FOLDERS.sub('', command) or UNKNOWN}`"
