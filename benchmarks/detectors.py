"""``SegmentsHead`` beside ActionFormer and TriDet, by their own code, on the same features.

python -m benchmarks.detectors data/detectors --actionformer FOLDER --tridet FOLDER

The folders are clones of happyharrycn/actionformer_release and dingfengshi/TriDet, whose code runs
as it is, on the CPU. Features and annotations lie in the layout of the published ones of THUMOS14,
``thumos14.json`` and ``i3d_features/*.npy``; where there are none, a small set is generated, and
the models are made small. Each detector with each seed gets the same processor time: the time of an
epoch is measured first. All segments are measured by ``SegmentsMetric``, once of the weights after
the last step and once of their means. These last the last twentieth of small runs: means over 1000
steps, as published, would be the first weights.
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from subprocess import run

import numpy as np
import torch
import yaml

from lab.papers.summary import interval
from mmvidformer.config import get_config
from mmvidformer.tasks.metrics import SegmentsMetric

IOUS = (0.3, 0.4, 0.5, 0.6, 0.7)
CLASSES, WIDTH, ROWS = 4, 32, 256  # of the generated set; rows of features of a video
VIDEOS = {"Validation": 40, "Test": 20}  # THUMOS14's names of the splits
EVERY, SPAN, FPS = 4, 16, 25.0  # frames from row to row and of a row's window, as published
DIM, LEVELS = 64, 4  # of the small models
BATCH, SHARE = 2, 1 / 20  # videos of a step, and what means of weights last of a small run
DECAY = 0.999  # of means of weights, as published
WEIGHTS = ("means", "last")
TRIAL_EPOCHS = (2, 4)  # of the runs that measure the time of an epoch
OURS = ("-m", "mmvidformer")
OFFICIAL = ("-m", "benchmarks.detectors_official")


def generate(root: Path) -> None:
    """Write features with noise, in which each class has a begin, a middle and an end.

    Segments last 1 to 16 s. Those of the last class are of the class before, too, as cliff diving
    is diving in THUMOS14. Begins alone, without what follows, belong to no segment.
    """
    rng = np.random.default_rng(0)
    patterns = rng.normal(size=(CLASSES, 3, WIDTH)) / np.sqrt(WIDTH)
    patterns[-1] = patterns[-2] + 0.7 * patterns[-1]
    (root / "i3d_features").mkdir(parents=True)
    database = {}
    for subset, count in VIDEOS.items():
        for number in range(count):
            frames = (ROWS - 1) * EVERY + SPAN
            signal, annotations = np.zeros((frames, WIDTH)), []
            place = int(rng.integers(0, 100))
            while True:
                length = int(FPS * 2 ** rng.uniform(0, 4))
                if place + length > frames:
                    break
                label = int(rng.integers(CLASSES))
                edge = min(length // 3, 25)
                is_cue = rng.random() < 0.25
                signal[place : place + edge] += patterns[label, 0]
                if not is_cue:
                    signal[place + edge : place + length - edge] += patterns[label, 1]
                    signal[place + length - edge : place + length] += patterns[label, 2]
                    for name in {label, min(label, CLASSES - 2)}:
                        segment = [place / FPS, (place + length) / FPS]
                        annotations.append(dict(segment=segment, label=f"c{name}", label_id=name))
                place += length + int(rng.integers(10, 120))
            windows = [signal[EVERY * i : EVERY * i + SPAN].mean(axis=0) for i in range(ROWS)]
            values = np.stack(windows) + rng.normal(size=(ROWS, WIDTH)) * 0.6
            name = f"video_{subset}_{number:07d}"
            np.save(root / "i3d_features" / f"{name}.npy", values.astype(np.float32))
            database[name] = dict(subset=subset, fps=FPS, duration=frames / FPS)
            database[name]["annotations"] = annotations
    (root / "thumos14.json").write_text(json.dumps(dict(database=database)))


def call(log: Path, *command: object) -> float:
    """Run a command with the log in a file, and return its processor time in seconds."""
    before = getrusage(RUSAGE_CHILDREN)
    with log.open("w") as text:
        run([sys.executable, *map(str, command)], check=True, stdout=text, stderr=text)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fit_decay(epochs: int) -> float:
    """Return the decay of means of weights that last a share of a run; published if it is 0."""
    return 1 - BATCH / (SHARE * epochs * VIDEOS["Validation"]) if epochs else DECAY


def write_official(root: Path, folder: Path, is_small: bool, epochs: int, target: Path) -> None:
    """Write the authors' configuration for THUMOS14, with paths, epochs and sizes changed."""
    config = yaml.safe_load((folder / "configs" / "thumos_i3d.yaml").read_text())
    files = dict(json_file=str(root / "thumos14.json"), feat_folder=str(root / "i3d_features"))
    config["dataset"].update(files)
    if is_small:
        ranges = [[0, 4], [4, 8], [8, 16], [16, 10000]]
        config["dataset"].update(input_dim=WIDTH, num_classes=CLASSES, max_seq_len=ROWS)
        config["model"].update(embd_dim=DIM, fpn_dim=DIM, head_dim=DIM, regression_range=ranges)
        config["model"].update(backbone_arch=[2, 2, LEVELS - 1])
        if "sgp_mlp_dim" in config["model"]:
            config["model"].update(sgp_mlp_dim=DIM)
        else:
            config["model"].update(n_mha_win_size=9)
        config["opt"].update(learning_rate=1e-3)
    if epochs:
        warmup = max(round(epochs / 7), 1)  # ActionFormer's share
        config["opt"].update(warmup_epochs=warmup, epochs=epochs - warmup)
    target.write_text(yaml.safe_dump(config))


def write_ours(root: Path, is_small: bool, epochs: int, seed: int, target: Path) -> None:
    """Write the config of ``SegmentsHead`` for THUMOS14, with paths, epochs and sizes changed."""
    cfg = get_config("features_thumos14")
    for split in ("train", "val", "test"):
        loader = cfg[f"{split}_dataloader"]
        loader.update(num_workers=0, persistent_workers=False, timeout=0)
        loader.dataset.ann_file = str(root / "thumos14.json")
        loader.dataset.data_prefix.video = str(root / "i3d_features")
        loader.dataset.pipeline[0].facts = str(root / "thumos14.json")
    if is_small:
        for split in ("train", "val", "test"):
            names = [f"c{number}" for number in range(CLASSES)]
            cfg[f"{split}_dataloader"].dataset.metainfo = dict(classes=names)
        cfg.train_dataloader.dataset.pipeline[0].rows = ROWS
        sizes = dict(num_classes=CLASSES, in_channels=WIDTH, hidden_dim=DIM, levels=LEVELS)
        cfg.model.cls_head.update(sizes)
        cfg.optim_wrapper.optimizer.lr = 1e-3
    if epochs:
        warmup = max(round(epochs / 7), 1)
        cfg.custom_hooks[0].momentum = 1 - fit_decay(epochs)
        cfg.param_scheduler[0].end = cfg.param_scheduler[1].begin = warmup
        cfg.param_scheduler[1].update(end=epochs, T_max=epochs - warmup)
        cfg.train_cfg.max_epochs = epochs
    cfg.train_cfg.val_interval = cfg.default_hooks.checkpoint.interval = cfg.train_cfg.max_epochs
    cfg.randomness = dict(seed=seed)
    cfg.dump(target)


Result = tuple[float, dict[str, dict[str, float]]]  # seconds of a processor; metrics by weights


class Detector:
    """A detector, whose runs are in folders of their own.

    Args:
        root: Folder of the features, and of the runs.
        name: Name of the folder of the runs.
        code: Clone of the authors' code; None for ``SegmentsHead``.
        is_small: Whether the features are the generated ones.
    """

    def __init__(self, root: Path, name: str, code: Path | None, is_small: bool) -> None:
        self.root, self.folder, self.code, self.is_small = root, root / name, code, is_small

    def run(self, epochs: int, seed: int) -> Result:
        """Train and test, or read what did."""
        out = self.folder / f"{epochs}_epochs_seed_{seed}"
        if (out / "result.json").exists():
            return tuple(json.loads((out / "result.json").read_text()))
        out.mkdir(parents=True)
        run_it = self._run_ours if self.code is None else self._run_official
        result = run_it(epochs, seed, out)
        (out / "result.json").write_text(json.dumps(result))
        return result

    def _run_ours(self, epochs: int, seed: int, out: Path) -> Result:
        write_ours(self.root, self.is_small, epochs, seed, out / "config.py")
        seconds = call(out / "train.log", *OURS, "train", out / "config.py", "--work-dir", out)
        checkpoint = torch.load(next(out.glob("epoch_*.pth")), weights_only=False)
        last = checkpoint.pop("ema_state_dict")
        states = dict(means=checkpoint["state_dict"])
        states["last"] = {key.removeprefix("module."): last[key] for key in last if key != "steps"}
        metrics = {}
        for name in WEIGHTS:
            folder = out / name
            folder.mkdir()
            torch.save({**checkpoint, "state_dict": states[name]}, folder / "weights.pth")
            files = (out / "config.py", folder / "weights.pth")
            call(folder / "test.log", *OURS, "test", *files, "--work-dir", folder)
            metrics[name] = json.loads(next(folder.glob("test_*.json")).read_text())["metrics"]
        return seconds, metrics

    def _run_official(self, epochs: int, seed: int, out: Path) -> Result:
        write_official(self.root, self.code, self.is_small, epochs, out / "config.yaml")
        files = (self.code, out / "config.yaml", seed, fit_decay(epochs), out)
        seconds = call(out / "train.log", *OFFICIAL, *files)
        metrics = {}
        for name in WEIGHTS:
            with np.load(out / f"{name}.npz") as found:
                metrics[name] = measure(self.root, {video: found[video] for video in found})
        return seconds, metrics

    def epochs_within(self, minutes: float) -> int:
        """Return how many epochs of training take so much processor time."""
        short, long = (self.run(epochs, seed=0)[0] for epochs in TRIAL_EPOCHS)
        seconds = (long - short) / (TRIAL_EPOCHS[1] - TRIAL_EPOCHS[0])
        return max(round(60 * minutes / seconds), 1)


def measure(root: Path, found: dict[str, np.ndarray]) -> dict[str, float]:
    """Return mAP of segments (n, 4): start, end, class and score, by the name of the video."""
    metric = SegmentsMetric(ious=IOUS)
    database = json.loads((root / "thumos14.json").read_text())["database"]
    for name, rows in found.items():
        table = torch.from_numpy(rows)
        segments = dict(segments=table[:, :2], labels=table[:, 2], scores=table[:, 3])
        spans = [(*x["segment"], x["label_id"]) for x in database[name]["annotations"]]
        metric.process(None, [{"spans": spans, "pred_instances": segments}])
    return metric.evaluate(len(found))


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each detector."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder of the features and of all runs")
    parser.add_argument("--actionformer", type=Path, help="clone of its code")
    parser.add_argument("--tridet", type=Path, help="clone of its code")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=2.0, help="of processor time, per seed")
    parser.add_argument("--full", action="store_true", help="published sizes and epochs")
    args = parser.parse_args(argv)
    if not (args.root / "thumos14.json").exists():
        generate(args.root)
    code = {"SegmentsHead": None, "ActionFormer": args.actionformer, "TriDet": args.tridet}
    print(
        "| segments | weights | epochs | s | " + " | ".join(f"mAP@{x}" for x in IOUS) + " | mean |"
    )
    print("|---" * (5 + len(IOUS)) + "|")
    for name, folder in code.items():
        if folder is None and name != "SegmentsHead":
            continue
        detector = Detector(args.root, name, folder, not args.full)
        epochs = 0 if args.full else detector.epochs_within(args.minutes)
        runs = [detector.run(epochs, seed) for seed in range(args.seeds)]
        seconds = np.mean([seconds for seconds, _ in runs])
        for weights in WEIGHTS:
            cells = [name, weights, str(epochs or "published"), f"{seconds:.0f}"]
            for key in (*(f"segments/mAP@{round(100 * iou)}" for iou in IOUS), "segments/mAP"):
                cells.append(interval([metrics[weights][key] for _, metrics in runs]))
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
