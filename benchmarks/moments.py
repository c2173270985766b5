"""Moments on generated videos: trained models beside differences of frames and their mean motion.

    python -m lab generate data/starts --preset starts
    mmvidformer finetune --config vivit_fe_motion --task moments --data data/starts --epochs 10
        --batch 4 --seed 0 --work-dir work_dirs/starts_0
    python -m benchmarks.moments data/starts work_dirs/starts_0 work_dirs/starts_1 ...

All are scored on the same videos of the test split. Without a model, a motion begins where the mean
difference of successive frames rises most within half a second on each side. Its class is that
whose mean optical flow in the training split is nearest to the flow of the next four steps.
"""

import csv
import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch

from benchmarks.outputs import parse_with_results
from mmvidformer.__main__ import main as run_command
from mmvidformer.data.text import read_text
from mmvidformer.engine.tables import print_table
from mmvidformer.tasks.annotations import read_spans
from mmvidformer.tasks.moments_metric import MomentsMetric
from mmvidformer.video.video import Video

FPS, REACH, STEPS = 12, 6, 4  # frames a second, around a rise, and after it
FRAMES = (1, 2, 4, 6)  # tolerances: frames on each side
WIDTHS = [2 * frames / FPS + 1e-6 for frames in FRAMES]


def read_gray(video: Path) -> np.ndarray:
    """Return the frames (T, H, W) of a video."""
    reader = Video.open(str(video))
    images = reader.get_batch(range(len(reader))).asnumpy()
    return np.stack([cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in images])


def flow_after(images: np.ndarray, first: int) -> np.ndarray:
    """Return the mean flow (2,) of what moves in the steps from a frame on."""
    flows = []
    for before, after in zip(images[first:], images[first + 1 : first + 1 + STEPS], strict=False):
        flow = cv2.calcOpticalFlowFarneback(before, after, None, 0.5, 2, 9, 3, 5, 1.1, 0)
        moves = np.hypot(flow[..., 0], flow[..., 1]) > 0.5
        flows += [flow[moves].mean(axis=0)] if moves.any() else []
    return np.mean(flows, axis=0) if flows else np.zeros(2)


def find_rises(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the frames at which most motion begins, and how much, as a share of the most."""
    change = np.abs(np.diff(images.astype(np.float32), axis=0)).mean(axis=(1, 2))
    rise = np.maximum(np.diff(change, prepend=0), 0)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(rise, REACH), 2 * REACH + 1)
    places = np.flatnonzero((rise > 0) & (rise == windows.max(axis=1)))
    return places, rise[places] / rise.max()


def score_flow(root: Path, names: Sequence[str]) -> dict[str, float]:
    """Return the metrics of the test split without a model."""
    flows: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for video, moments in read_spans(root / "train.csv", overlap=True).items():
        images = read_gray(root / video)
        for start, _, label, *_ in moments:
            flows[label].append(flow_after(images, round(start * FPS)))
    centers = np.stack([np.mean(flows[name], axis=0) for name in names])
    metric = MomentsMetric(WIDTHS, FPS)
    metric.dataset_meta = dict(classes=names)
    tests = read_spans(root / "test.csv", overlap=True)
    for video, moments in tests.items():
        images = read_gray(root / video)
        places, scores = find_rises(images)
        motion = np.array([flow_after(images, place) for place in places]).reshape(-1, 1, 2)
        labels = np.square(motion - centers).sum(axis=2).argmin(axis=1)
        seconds = torch.from_numpy(places / FPS)
        instances = dict(
            segments=torch.stack([seconds, seconds], 1),
            labels=torch.from_numpy(labels),
            scores=torch.from_numpy(scores),
        )
        spans = [(start, end, names.index(label)) for start, end, label, *_ in moments]
        metric.process(None, [dict(spans=spans, pred_instances=instances)])
    return metric.evaluate(len(tests))


def score_model(root: Path, run: Path) -> dict[str, float]:
    """Return the metrics of the best checkpoint of a run on the test split."""
    (checkpoint,) = run.glob("best_*.pth")
    out = run / "moments"
    widths = ",".join(f"{width:.8f}" for width in WIDTHS)
    data = f"test_dataloader.dataset.ann_file={root / 'test.csv'}"
    videos = f"test_dataloader.dataset.data_prefix.video={root}"
    metric = [f"test_evaluator.fps={FPS}", f"test_evaluator.tolerances=[{widths}]"]
    config = str(run / "finetune" / "config.py")
    options = ["--work-dir", str(out), "--cfg-options", data, videos, *metric]
    if status := run_command(["test", config, str(checkpoint), *options]):
        raise SystemExit(status)
    (report,) = out.glob("test_*.json")
    return json.loads(report.read_text())["metrics"]


def main(argv: Sequence[str] | None = None) -> None:
    """Score all, print a table and write it beside the lists."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder of the videos and their lists")
    parser.add_argument("runs", type=Path, nargs="*", help="work directories of finetune")
    args = parse_with_results(parser, argv, lambda args: [args.root / "moments.csv"])
    names = read_text(args.root / "classes.txt").splitlines()
    metrics = {"rise of differences, nearest mean flow": score_flow(args.root, names)}
    for run in args.runs:
        metrics[run.name] = score_model(args.root.absolute(), run)
    header = ["found by", *(f"{frames} frames" for frames in FRAMES)]
    rows = []
    for name, values in metrics.items():
        shares = [values[f"moments/mAP@{width:g}s"] for width in WIDTHS]
        rows.append([name, *(f"{100 * share:.1f}" for share in shares)])
    print_table(header, rows)
    with open(args.root / "moments.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    main()
