"""Train and test the answers other than one class on generated videos.

python -m benchmarks.answers --root data/answers --seeds 3
python -m benchmarks.answers --stream work_dirs/segments

For each task the videos are generated, and a model is fine-tuned from random weights and tested as
a user would, with each seed. Beside it: a model that sees single frames, whose features it averages
("frames alone"), and bounds that are computed from the annotations of the test videos. The second
command prints only mAP of segments by the delay of a stream, for models that ``mmvidformer finetune
--task segments`` trained on the preset ``scripts``.
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import run

import numpy as np
import torch
from mmaction.evaluation import mean_average_precision

from benchmarks.answer_bounds import (
    boxes_bound,
    frame_labels,
    frames_bound,
    labels_bound,
    number_bound,
    segments_bound,
)
from lab.papers.summary import interval
from lab.synthetic import PRESETS
from lab.synthetic.answers import ScriptsSpec
from lab.synthetic.render import DIRECTIONS
from lab.synthetic.spec import Clip
from mmvidformer.apis import Recognizer
from mmvidformer.tasks.joined_windows import list_segments
from mmvidformer.tasks.metrics import SegmentsMetric

# Preset of the videos, epochs, metric and bounds of each task.
TASKS: dict[str, tuple[str, int, str, Callable[[], tuple[float, float]]]] = {
    "labels": ("labels", 10, "acc/mean_average_precision", labels_bound),
    "number": ("speed", 15, "number/r2", number_bound),
    "frames": ("scripts", 20, "frames/accuracy", frames_bound),
    "segments": ("scripts", 10, "segments/mAP@50", segments_bound),
    "boxes": ("boxes", 4, "mAP/overall", boxes_bound),
}


CONFIGS = {"video": "vivit_fe_motion", "frames alone": "vivit_avgpool_motion"}
# For boxes the tokens of a frame must keep their places: overrides of vivit_fsa_motion's backbone.
PLACES = {
    "video": ["stem.tubelet=(2,8,8)"],
    "frames alone": ["type=mmvidformer.TimeSformer", "scheme=space_only", "stem.tubelet=(1,8,8)"],
}


def measure(root: Path, task: str, model: str, seed: int) -> float:
    """Train and test a model once; returns the metric."""
    preset, epochs, metric, _ = TASKS[task]
    work_dir = root / f"{task}_{CONFIGS[model]}_{seed}"
    command = [sys.executable, "-m", "mmvidformer"]
    if not any(work_dir.glob("test_*.json")):
        config = "vivit_fsa_motion" if task == "boxes" else CONFIGS[model]
        options = ["--config", config, "--task", task, "--data", str(root / preset)]
        batch = 4 if task == "segments" else 16
        options += ["--epochs", str(epochs), "--batch", str(batch), "--seed", str(seed)]
        if task == "boxes":
            overrides = [f"model.backbone.{override}" for override in PLACES[model]]
            options += ["--cfg-options", *overrides]
        with work_dir.with_suffix(".log").open("w") as log:
            train = [*command, "finetune", *options, "--force", "--work-dir", str(work_dir)]
            run(train, check=True, stdout=log, stderr=log)
            best = next(work_dir.glob("best_*.pth"))
            test = [*command, "test", str(work_dir / "finetune" / "config.py"), str(best)]
            run(test, check=True, stdout=log, stderr=log)
    result = next(work_dir.glob("test_*.json"))
    return json.loads(result.read_text())["metrics"][metric]


def load(root: Path, task: str, seed: int) -> Recognizer:
    """Load the trained model of videos for a task."""
    return load_run(root / f"{task}_{CONFIGS['video']}_{seed}")


def load_run(work_dir: Path) -> Recognizer:
    """Load the best checkpoint of a run of fine-tuning."""
    best = next(work_dir.glob("best_*.pth"))
    return Recognizer(work_dir / "finetune" / "config.py", str(best))


def precision(root: Path, seed: int, task: str) -> dict[str, float]:
    """Return mAP of the segments of a model, or of the parts in which a model of frames is sure.

    A part has one most likely class, and its score is the mean probability.
    """
    metric, spec = SegmentsMetric(ious=(0.5, 0.7, 0.9)), PRESETS["scripts"]
    names, recognizer = list(DIRECTIONS), load(root, task, seed)
    for clip in spec.clips("test"):
        answers = list(recognizer.timeline(spec.draw(clip), fps=spec.fps, min_score=0.0))
        rows = [row for row in list_segments(answers) if row.label in names]
        parts = dict(
            segments=torch.tensor([[row.start, row.end] for row in rows]),
            labels=torch.tensor([names.index(row.label) for row in rows]),
            scores=torch.tensor([row.score for row in rows]),
        )
        metric.process(None, [{"spans": true_spans(spec, clip), "pred_instances": parts}])
    return metric.evaluate(len(spec.clips("test")))


def true_spans(spec: ScriptsSpec, clip: Clip) -> list[tuple[float, float, int]]:
    """Return start and end in seconds, and direction, of the motions of a video."""
    motions, _, _ = spec.script(clip)
    return [(start / spec.fps, end / spec.fps, direction) for direction, start, end in motions]


def online(root: Path, seed: int, delay: float) -> float:
    """Return the accuracy of frames in a stream whose steps are known ``delay`` seconds later."""
    recognizer = load(root, "frames", seed)
    names = list(next(iter(recognizer.names.values())))
    spec = PRESETS["scripts"]
    right = count = 0
    for clip in spec.clips("test"):
        truth = frame_labels(spec, clip, names.index("background"))
        for answer in recognizer.stream(spec.draw(clip), spec.fps, delay=delay):
            first, end = (round(second * spec.fps) for second in answer.seconds)
            label = answer.top(1)[0][0]
            right += int((truth[first:end] == label).sum())
            count += len(truth[first:end])
    return right / count


def print_delays(models: Sequence[Recognizer]) -> None:
    """Print mAP of the segments of streams by delay, and of whole videos, of the same models."""
    print("\n| delay of a stream, s | mAP at 0.5 | seconds from end to answer |\n|---|---|---|")
    for delay in (0.0, 0.25, 0.5, 1.0, 2.0, None):
        results = [stream_segments(model, PRESETS["scripts"], delay) for model in models]
        scores, late = zip(*results, strict=True)
        name = "whole video" if delay is None else f"{delay:g}"
        seconds = f"{np.mean(late):.2f}" if late[0] else "-"
        print(f"| {name} | {interval(scores)} | {seconds} |", flush=True)


def stream_segments(
    recognizer: Recognizer, spec: ScriptsSpec, delay: float | None
) -> tuple[float, float | None]:
    """Return mAP at 0.5 of the segments of a stream, and the mean seconds from end to answer.

    Streams are the test videos of a spec. Without a delay the whole videos are seen.
    """
    metric, names, late = SegmentsMetric(), list(next(iter(recognizer.names.values()))), []
    for clip in spec.clips("test"):
        frames, seen, rows = spec.draw(clip), [0], []

        def read(frames: np.ndarray = frames, seen: list[int] = seen) -> Iterator[np.ndarray]:
            for frame in frames:
                seen[0] += 1
                yield frame

        if delay is None:
            answers = recognizer.timeline(frames, fps=spec.fps)
        else:
            answers = recognizer.stream(read(), spec.fps, delay=delay)
        for answer in answers:
            _, name, probability = answer.top(1)[0]
            rows.append((*answer.seconds, names.index(name), probability))
            if 0 < seen[0] < len(frames):  # not what the end of the video gives
                late.append(seen[0] / spec.fps - answer.seconds[1])
        table = torch.tensor(rows).reshape(-1, 4)
        segments = dict(segments=table[:, :2], labels=table[:, 2].long(), scores=table[:, 3])
        metric.process(None, [{"spans": true_spans(spec, clip), "pred_instances": segments}])
    figures = metric.evaluate(len(spec.clips("test")))
    return figures["segments/mAP@50"], float(np.mean(late)) if late else None


def without_boxes(root: Path, seed: int) -> float:
    """Return mAP of boxes of a model of labels, which gives each box the classes of its clip."""
    spec, work_dir = PRESETS["boxes"], root / f"clips_of_boxes_{seed}"
    data = work_dir.with_name("clips_of_boxes")
    data.mkdir(exist_ok=True)
    for split in ("train", "val"):
        rows = (root / "boxes" / f"{split}.csv").read_text().splitlines()
        labels: dict[str, set[int]] = {}
        for row in rows:
            name, *_, label, _ = row.split(",")
            labels.setdefault(name, set()).add(int(label) - 1)
        lines = []
        for name, numbers in labels.items():
            lines.append(f"../boxes/{split}/{name}.mp4 {' '.join(map(str, numbers))}\n")
        (data / f"{split}.txt").write_text("".join(lines))
    (data / "classes.txt").write_text("\n".join(DIRECTIONS) + "\n")
    if not any(work_dir.glob("best_*.pth")):
        options = ["--config", "vivit_fsa_motion", "--task", "labels", "--data", data]
        options += ["--epochs", 8, "--batch", 16, "--seed", seed, "--work-dir", work_dir, "--force"]
        command = [sys.executable, "-m", "mmvidformer", "finetune", *map(str, options)]
        with work_dir.with_suffix(".log").open("w") as log:
            run(command, check=True, stdout=log, stderr=log)
    best = next(work_dir.glob("best_*.pth"))
    recognizer = Recognizer(work_dir / "finetune" / "config.py", str(best), clips=1)
    scores, truth = [], []
    for clip in spec.clips("test"):
        probabilities = recognizer(root / "boxes" / spec.path(clip)).probabilities["class"]
        directions = spec.script(clip)[0]
        scores += [probabilities] * len(directions)
        truth += list(np.eye(len(spec.class_names))[directions])
    return float(mean_average_precision(scores, truth))


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each task."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("data/answers"), help="folder of all")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", type=int, help="number of training videos (default: as preset)")
    parser.add_argument("--stream", type=Path, nargs="+", metavar="WORK_DIR", help="see above")
    parser.add_argument("--without-boxes", action="store_true", help="only a head without boxes")
    args = parser.parse_args(argv)
    if args.stream:
        print_delays([load_run(work_dir) for work_dir in args.stream])
        return
    args.root.mkdir(parents=True, exist_ok=True)
    if args.without_boxes:
        spec = PRESETS["boxes"]
        replace(spec, train=args.train or spec.train).write(args.root / "boxes")
        precisions = [without_boxes(args.root, seed) for seed in range(args.seeds)]
        print(f"a head without boxes: mAP {interval(precisions)}")
        return
    print("| task | metric | one frame, bound | frames alone | video | best possible |")
    print("|---|---|---|---|---|---|")
    for task in args.tasks:
        preset, _, metric, bounds = TASKS[task]
        spec = PRESETS[preset]
        replace(spec, train=args.train or spec.train).write(args.root / preset, 2)
        cells = []
        for model in reversed(CONFIGS):
            values = [measure(args.root, task, model, seed) for seed in range(args.seeds)]
            cells.append(interval(values))
        low, high = (f"{100 * value:.1f}" for value in bounds())
        print(f"| {task} | {metric} | {low} | {cells[0]} | {cells[1]} | {high} |", flush=True)
    if "frames" in args.tasks:
        print("\n| delay of a stream, s | accuracy of frames |\n|---|---|")
        for delay in (0.0, 0.5):
            accuracies = [online(args.root, seed, delay) for seed in range(args.seeds)]
            print(f"| {delay:g} | {interval(accuracies)} |", flush=True)
    if "segments" in args.tasks:
        print_delays([load(args.root, "segments", seed) for seed in range(args.seeds)])
    if {"frames", "segments"} <= set(args.tasks):
        print("\n| segments | mAP at 0.5 | 0.7 | 0.9 |\n|---|---|---|---|")
        for name, task in (("SegmentsHead", "segments"), ("parts of FramesHead", "frames")):
            results = [precision(args.root, seed, task) for seed in range(args.seeds)]
            metrics = [f"segments/mAP@{iou}" for iou in (50, 70, 90)]
            cells = [interval([result[metric] for result in results]) for metric in metrics]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
