"""Segments on generated scripts: three ways to find them from the same backbone.

python -m benchmarks.localizers --root data/localizers --seeds 3

A small ViViT learns the classes of trimmed clips, with a class for pauses. Compared are: its
answers in sliding windows, whose successive ones of a class are a segment; and, with each seed,
``SegmentsHead`` on features of its backbone, a row for every 2 frames, and MMAction2's BMN on the
same features, whose proposals take their classes from the windows. BMN runs by MMAction2's tools.
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from subprocess import run

import numpy as np
import torch
from mmengine.config import Config
from mmengine.utils import get_installed_path

from lab.papers.summary import interval
from lab.synthetic import PRESETS
from lab.synthetic.render import DIRECTIONS, write_video
from mmvidformer.apis import Recognizer
from mmvidformer.config import get_config
from mmvidformer.sinks.video_files import write_features
from mmvidformer.tasks.joined_windows import list_segments
from mmvidformer.tasks.metrics import SegmentsMetric

SPEC = replace(PRESETS["scripts"], train=100, val=20, test=40)
NAMES = list(DIRECTIONS)
LENGTH, STRIDE, EVERY, ROWS = 8, 2, 2, 48  # frames of clips, and from window to window; rows of BMN
CLIP_EPOCHS, EPOCHS = 12, 30  # of the classifier; of SegmentsHead and BMN
IOUS = (0.5, 0.7, 0.9)
MMVIDFORMER = ("-m", "mmvidformer")
MIM = Path(get_installed_path("mmaction"), ".mim")
BMN = MIM / "configs/localization/bmn/bmn_2xb8-400x100-9e_activitynet-feature.py"
Row = tuple[float, float, int, float]  # start, end, class, score


def write_clips(root: Path) -> None:
    """Write the motions and pauses of at least a clip's length, in folders of their classes."""
    for split in ("train", "val"):
        for clip in SPEC.clips(split):
            frames, end = SPEC.draw(clip), 0
            for label, start, stop in SPEC.script(clip)[0]:
                for name, part in (
                    ("pause", frames[end:start]),
                    (NAMES[label], frames[start:stop]),
                ):
                    if len(part) >= LENGTH:
                        target = root / split / name / f"{clip.number}_{start}.mp4"
                        target.parent.mkdir(parents=True, exist_ok=True)
                        write_video(target, part, SPEC.fps)
                end = stop


def call(log: Path, *command: object) -> None:
    """Run a command with the log in a file."""
    with log.open("w") as text:
        run([sys.executable, *map(str, command)], check=True, stdout=text, stderr=text)


def train_clips(root: Path, work_dir: Path) -> Recognizer:
    """Train the classifier of clips."""
    if not list(work_dir.glob("epoch_*.pth")):
        options = ["--config", "vivit_fe_motion", "--data", root / "clips", "--epochs", CLIP_EPOCHS]
        options += ["--batch", 16, "--work-dir", work_dir, "--force"]
        options += ["--cfg-options", f"model.backbone.clip_len={LENGTH}"]
        for split in ("train", "val"):
            options += [f"{split}_dataloader.dataset.pipeline.1.clip_len={LENGTH}"]
            options += [f"{split}_dataloader.dataset.pipeline.1.frame_interval=1"]
        call(work_dir.with_suffix(".log"), *MMVIDFORMER, "finetune", *options)
    cfg = Config.fromfile(work_dir / "finetune" / "config.py")
    cfg.test_pipeline = cfg.test_dataloader.dataset.pipeline = cfg.val_dataloader.dataset.pipeline
    cfg.dump(work_dir / "windows.py")
    return Recognizer(work_dir / "windows.py", str(best(work_dir)))


def best(work_dir: Path) -> Path:
    """Return the best checkpoint."""
    return next(work_dir.glob("best_*.pth"))


def windows(recognizer: Recognizer) -> list[list]:
    """Return the predictions of the windows of each test video."""
    options = dict(window=LENGTH / SPEC.fps, stride=STRIDE / SPEC.fps, fps=SPEC.fps)
    return [list(recognizer.timeline(SPEC.draw(c), **options)) for c in SPEC.clips("test")]


def of_windows(answers: list) -> list[Row]:
    """Segments of successive windows of a class, with their mean probability."""
    rows = [row for row in list_segments(answers) if row.label in NAMES]
    return [(row.start, row.end, NAMES.index(row.label), row.score) for row in rows]


def of_bmn(work_dir: Path, features: Path, answers: list[list], seed: int) -> list[list[Row]]:
    """Train BMN; its proposals with the classes of the windows inside, by the product of scores."""
    for split in ("train", "val", "test"):
        database = {}
        for clip in SPEC.clips(split):
            spans, frames, _ = SPEC.script(clip)
            parts = [
                dict(segment=[start / SPEC.fps, end / SPEC.fps], label=NAMES[direction])
                for direction, start, end in spans
            ]
            database[f"v_{SPEC.name(clip)}"] = dict(
                duration_second=frames / SPEC.fps, duration_frame=frames, feature_frame=frames,
                annotations=parts, fps=SPEC.fps, rfps=SPEC.fps,
            )  # fmt: skip
            with np.load(features / f"{SPEC.path(clip)}.npz") as file:
                values = file["features"]
            # The middles of the rows, counted in windows, of which each stands for its middle.
            places = ((np.arange(ROWS) + 0.5) * frames / ROWS - LENGTH / 2) / EVERY
            rows = [np.interp(places, np.arange(len(values)), column) for column in values.T]
            write_features(work_dir / "csv" / f"v_{SPEC.name(clip)}.csv", np.stack(rows, 1), ROWS)
        (work_dir / f"{split}.json").write_text(json.dumps(database))
    cfg = Config.fromfile(BMN)
    cfg.custom_imports = dict(imports=["mmvidformer.registry"], allow_failed_imports=False)
    cfg.model.update(feat_dim=96, temporal_dim=ROWS, num_samples=8)
    cfg.model.update(hidden_dim_1d=96, hidden_dim_2d=64, hidden_dim_3d=128)
    cfg.model.feature_extraction_interval = 1  # times are cut to a multiple of it
    for split in ("train", "val", "test"):
        loader = cfg[f"{split}_dataloader"]
        loader.update(num_workers=0, persistent_workers=False)
        loader.dataset.update(ann_file=str(work_dir / f"{split}.json"))
        loader.dataset.data_prefix = dict(video=str(work_dir / "csv"))
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    cfg.train_cfg.max_epochs = cfg.param_scheduler[0].end = EPOCHS
    cfg.param_scheduler[0].milestones = [EPOCHS * 7 // 9]
    cfg.test_evaluator.dump_config = dict(out=str(work_dir / "found.json"), output_format="json")
    cfg.dump(work_dir / "bmn.py")
    out, last = ("--work-dir", work_dir), work_dir / f"epoch_{EPOCHS}.pth"
    if not last.exists():
        call(
            work_dir / "bmn.log", MIM / "tools/train.py", work_dir / "bmn.py", *out, "--seed", seed
        )
    call(work_dir / "bmn_test.log", MIM / "tools/test.py", work_dir / "bmn.py", last, *out)
    proposals = json.loads((work_dir / "found.json").read_text())["results"]
    rows = []
    for clip, windows_of_clip in zip(SPEC.clips("test"), answers, strict=True):
        middles = np.array([np.mean(window.seconds) for window in windows_of_clip])
        probabilities = np.stack([window.probabilities["class"] for window in windows_of_clip])
        classes = [windows_of_clip[0].names["class"].index(name) for name in NAMES]
        segments: list[Row] = []
        for proposal in proposals[SPEC.name(clip)]:
            start, end = proposal["segment"]
            distance = np.abs(middles - (start + end) / 2)
            inside = (middles >= start) & (middles <= end)
            inside |= distance == distance.min()  # at least one window
            scores = probabilities[inside].mean(axis=0)[classes] * proposal["score"]
            for label, score in enumerate(scores):
                segments.append((start, end, label, float(score)))
        rows.append(segments)
    return rows


def of_head(work_dir: Path, features: Path, seed: int) -> dict[str, float]:
    """Train ``SegmentsHead`` on the features, and test it."""
    cfg = get_config("features_thumos14")
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.update(ann_file=str(features / f"{split}.csv"), metainfo=dict(classes=NAMES))
        dataset.data_prefix.video = str(features)
        cfg[f"{split}_dataloader"].update(num_workers=0, persistent_workers=False, timeout=0)
    cfg.train_dataloader.batch_size = 4
    cfg.train_dataloader.dataset.pipeline[0].rows = 128
    cfg.model.cls_head.update(num_classes=len(NAMES), in_channels=96, hidden_dim=128, levels=4)
    cfg.optim_wrapper.optimizer.lr = 1e-3
    cfg.train_cfg.update(max_epochs=EPOCHS, val_interval=EPOCHS)
    cfg.param_scheduler[1].update(end=EPOCHS, T_max=EPOCHS - cfg.param_scheduler[1].begin)
    cfg.test_evaluator = cfg.val_evaluator = dict(type="mmvidformer.SegmentsMetric", ious=IOUS)
    cfg.randomness = dict(seed=seed)
    cfg.dump(work_dir / "head.py")
    out, last = ("--work-dir", work_dir / "head"), work_dir / "head" / f"epoch_{EPOCHS}.pth"
    if not last.exists():
        call(work_dir / "head.log", *MMVIDFORMER, "train", work_dir / "head.py", *out)
    files = (work_dir / "head.py", last)
    call(work_dir / "head_test.log", *MMVIDFORMER, "test", *files, *out)
    return json.loads(next((work_dir / "head").glob("test_*.json")).read_text())["metrics"]


def precision(videos: Iterable[list[Row]]) -> dict[str, float]:
    """Return mAP of the segments of all test videos."""
    metric = SegmentsMetric(ious=IOUS)
    for clip, rows in zip(SPEC.clips("test"), videos, strict=True):
        table = torch.tensor(rows, dtype=torch.float).reshape(-1, 4)
        segments = dict(segments=table[:, :2], labels=table[:, 2].long(), scores=table[:, 3])
        truth = [
            (start / SPEC.fps, end / SPEC.fps, direction)
            for direction, start, end in SPEC.script(clip)[0]
        ]
        metric.process(None, [{"spans": truth, "pred_instances": segments}])
    return metric.evaluate(len(SPEC.clips("test")))


def extract(root: Path, work_dir: Path) -> Path:
    """Save the features of all videos, with the lists of the segments beside them."""
    features = root / "features"
    files = (work_dir / "windows.py", best(work_dir))
    options = (root / "scripts", "--every", EVERY, "--files", "--out", features)
    call(root / "features.log", *MMVIDFORMER, "features", *files, *options)
    for split in ("train", "val", "test"):
        (features / f"{split}.csv").write_text((root / "scripts" / f"{split}.csv").read_text())
    return features


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each way."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("data/localizers"), help="folder of all")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args(argv)
    if SPEC.write(args.root / "scripts") or not (args.root / "clips").is_dir():
        write_clips(args.root / "clips")
        options = ("data", "list", args.root / "clips", "--no-check")
        call(args.root / "clips.log", *MMVIDFORMER, *options)
    recognizer = train_clips(args.root, args.root / "classifier")
    features = extract(args.root, args.root / "classifier")
    answers = windows(recognizer)

    def measure(seed: int) -> dict[str, dict[str, float]]:
        work_dir = args.root / f"seed_{seed}"
        work_dir.mkdir(exist_ok=True)
        return {
            "windows of the classifier": precision(map(of_windows, answers)),
            "SegmentsHead": of_head(work_dir, features, seed),
            "MMAction2's BMN": precision(of_bmn(work_dir, features, answers, seed)),
        }

    with ThreadPoolExecutor(args.seeds) as pool:  # each runs in processes of its own
        seeds = list(pool.map(measure, range(args.seeds)))
    print("| segments | mAP at 0.5 | 0.7 | 0.9 |\n|---|---|---|---|")
    for name in seeds[0]:
        cells = []
        for iou in IOUS:
            metric = f"segments/mAP@{round(100 * iou)}"
            cells.append(interval([figures[name][metric] for figures in seeds]))
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
