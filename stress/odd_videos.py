"""Run tools/train.py and test.py on all kinds of bad and odd videos.

    python -m stress.odd_videos --out odd_videos.csv

Each kind is one video among four good ones, in training and testing, with each decoder, with 0 and
2 workers, under the policies 'raise' and 'resample'. Fails if a run hangs or crashes; if a run that
cannot read the video does not name it with a reason; if a run with 'raise' continues; if testing
skips the video; or if the scores of the good videos are not those without it. One kind is read at a
moment in seconds, all others as a whole. Needs TorchCodec and a system with fork (Linux, macOS).
Takes about 30 minutes on two cores, half of that with --short.
"""

import csv
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from mmengine.registry import init_default_scope
from tqdm import tqdm

from mmvidformer.__main__ import main as run_command
from mmvidformer.registry import MODELS, TRANSFORMS
from mmvidformer.video.choices import BACKENDS
from stress.odd_kinds import KINDS, encode
from stress.tiny_run import fork, prepare, write_config

GOOD, LIMIT = 4, 300  # number of good videos; seconds after which a run counts as hanging
PIPELINE = [
    dict(type="DecordInit", num_threads=1),
    dict(type="SampleFrames", clip_len=4, frame_interval=2, num_clips=1, test_mode=True),
    dict(type="DecordDecode"),
    dict(type="Resize", scale=(-1, 36)),
    dict(type="CenterCrop", crop_size=32),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]


@TRANSFORMS.register_module()
class FirstSecond(BaseTransform):
    """Ask for the frames around the second 1, as a dataset of boxes does."""

    def transform(self, results: dict) -> dict:
        """Set the moment."""
        return {**results, "timestamp": 1}


MOMENT = "moment.py"  # config that reads the frames around a moment
AT_A_MOMENT = [
    PIPELINE[0],
    dict(type="mmvidformer.FirstSecond"),
    dict(type="mmvidformer.FramesAround", clip_len=4, frame_interval=2),
    *PIPELINE[2:],
]


def write_setup(folder: Path) -> tuple[Path, Path]:
    """Write good videos, one of each kind, a config and weights; return the paths of the latter."""
    config = write_config(folder, epochs=1, interval=100)
    cfg = Config.fromfile(config)
    for split in ("train", "test"):
        loader = cfg[f"{split}_dataloader"]
        loader.batch_size = 1
        loader.dataset.test_mode = split == "test"
    cfg.log_level = "INFO"
    for name, pipeline in ((MOMENT, AT_A_MOMENT), (config.name, PIPELINE)):
        for split in ("train", "test"):
            cfg[f"{split}_dataloader"].dataset.pipeline = pipeline
        cfg.dump(config.with_name(name))
    videos = folder / "videos"
    for number in range(GOOD):
        encode(videos / f"{number}.mp4", count=8 + number)
    good = "".join(f"{number}.mp4 {number % 2}\n" for number in range(GOOD))
    (videos / "good.txt").write_text(good)
    for video in KINDS:
        KINDS[video].make(videos / f"{video}.mp4")
        (videos / f"{video}.txt").write_text(good + f"{video}.mp4 1\n")
    weights = folder / "weights.pth"
    torch.manual_seed(0)
    torch.save(dict(state_dict=MODELS.build(cfg.model).state_dict()), weights)
    return config, weights


def config_of(video: str, config: Path) -> Path:
    """Return the config that reads a kind."""
    return config.with_name(MOMENT) if video in KINDS and KINDS[video].at_moment else config


def run(action: Callable[[], None], log: Path) -> str:
    """Act in a child process; return its exit code, the name of its signal, or 'hangs'."""
    child, deadline = fork(action, log), time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            code = os.waitstatus_to_exitcode(status)
            return str(code) if code >= 0 else signal.Signals(-code).name
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


def arguments(video: str, case: Mapping[str, object], config: Path, weights: Path) -> list[str]:
    """Return the command line of a run, which writes to ``out`` beside the config."""
    split, out = case["tool"], config.parent / "out"
    first = [str(config), str(weights), "--dump", str(out / "scores.npz")]
    options = [
        f"{split}_dataloader.dataset.ann_file={config.parent / 'videos' / video}.txt",
        f"{split}_dataloader.num_workers={case['workers']}",
        f"bad_videos.on_bad_video={case['policy']}",
        "bad_videos.max_bad_share=0.5",
    ]
    return [
        *(first if split == "test" else first[:1]),
        *("--work-dir", str(out), "--video-backend", case["decoder"], "--cfg-options"),
        *options,
    ]


def look(
    video: str, case: Mapping[str, object], ended: str, out: Path, text: str
) -> dict[str, str]:
    """Return whether a run read the video, ended, or logged it as bad, and the reason."""
    name = f"{video}.mp4"
    if not ended.isdigit():
        return dict(outcome=f"FAULT: {ended}", reason="")
    if ended != "0":
        # "FILE: REASON" of a BadVideo, or of a check before the start.
        lines = [line for line in text.splitlines() if f"/{name}" in line]
        before, _, after = lines[-1].partition(f"/{name}") if lines else ("", "", "")
        reason = after.strip(": '") or before.strip()
        fault = "" if reason and case["policy"] == "raise" else "FAULT: ends without a reason"
        return dict(outcome=fault or "run ended", reason=reason)
    logged = {*re.findall(r"bad video: (\S+): (.*)", text)}
    reason = next((reason for path, reason in logged if path.endswith(name)), "")
    if case["policy"] == "raise" and reason:
        return dict(outcome="FAULT: continues", reason=reason)
    others = [path for path, _ in logged if not path.endswith(name)]
    if others:
        return dict(outcome=f"FAULT: also {others}", reason=reason)
    return dict(outcome="reported" if reason else "read", reason=reason)


def wrong_scores(path: Path, alone: np.ndarray) -> str:
    """Return what is wrong with the scores of the good videos, against a test without others."""
    scores = np.load(path)["scores"]
    if len(scores) != GOOD + 1:
        return f"FAULT: {len(scores)} of {GOOD + 1} scores"
    return "" if np.array_equal(scores[:GOOD], alone) else "FAULT: good videos have other scores"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the test and return the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--decoders", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument(
        "--short", action="store_true", help="only 'raise' without workers and 'resample' with them"
    )
    parser.add_argument("--out", type=Path, help=".csv file to write, a row for each run")
    args = parser.parse_args(argv)
    prepare()
    init_default_scope("mmaction")
    rows: list[dict] = []
    axes = dict(
        decoder=args.decoders,
        tool=("train", "test"),
        policy=("raise", "resample"),
        workers=(0, 2),
    )
    cases = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if args.short:
        cases = [case for case in cases if (case["policy"] == "raise") == (case["workers"] == 0)]
    with tempfile.TemporaryDirectory(prefix="odd_videos_") as name:
        folder = Path(name)
        config, weights = write_setup(folder)
        out, log = folder / "out", folder / "log.txt"
        alone: dict[tuple[str, Path], np.ndarray] = {}  # scores of the good videos

        def run_case(video: str, case: Mapping[str, object], config: Path) -> str:
            shutil.rmtree(out, ignore_errors=True)
            log.unlink(missing_ok=True)
            words = [str(case["tool"]), *arguments(video, case, config, weights)]
            return run(lambda: sys.exit(run_command(words)), log)

        for decoder in args.decoders:
            case = dict(decoder=decoder, tool="test", policy="raise", workers=0)
            for reading in (config, config.with_name(MOMENT)):
                if run_case("good", case, reading) != "0":
                    text = log.read_text()[-2000:]
                    raise RuntimeError(f"good videos cannot be tested:\n{text}")
                alone[decoder, reading] = np.load(out / "scores.npz")["scores"]
        tries = list(itertools.product(args.only, cases))
        for video, case in tqdm(tries, unit="run", disable=None):
            reading = config_of(video, config)
            ended = run_case(video, case, reading)
            seen = look(video, case, ended, out, log.read_text(errors="replace"))
            readable, outcome = KINDS[video].read, seen["outcome"]
            if readable is not None and readable != (outcome == "read") and "FAULT" not in outcome:
                seen["outcome"] = f"FAULT: {outcome}"
            if case["tool"] == "test" and ended == "0":
                wrong = wrong_scores(out / "scores.npz", alone[case["decoder"], reading])
                seen["outcome"] = wrong or seen["outcome"]
            seen["reason"] = seen["reason"].replace(f"{folder}/", "")[:200]
            rows.append({"kind": video, **case, "exit": ended, **seen})
            tqdm.write("  ".join(f"{value!s}" for value in rows[-1].values()))
    if args.out is not None:
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    counts = Counter((row["kind"], row["decoder"], row["outcome"]) for row in rows)
    for (video, decoder, outcome), count in counts.items():
        print(f"{video:16} {decoder:10} {outcome:36} {count}")
    faults = sum("FAULT" in row["outcome"] for row in rows)
    print(f"{len(rows)} runs, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    raise SystemExit(main())
