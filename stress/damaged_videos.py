"""Read damaged videos with the training and the test pipeline of a shipped config.

python -m stress.damaged_videos --backend pyav --count 1000 --videos FOLDER --out FILE.json

Truncates generated videos and those in FOLDER, flips bits in them, and damages their headers. Reads
each variant, among good files, through a dataloader with two workers: in training with the policy
'raise', in testing with 'resample'. Fails if a worker crashes or takes longer than the timeout, as
with decord, if a sample is neither read nor reported, or if a good file gives other numbers than
without damaged ones.
"""

import json
import logging
import multiprocessing
import random
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import decord
import numpy as np
import torch
from mmengine.logging import MMLogger
from mmengine.registry import init_default_scope
from torch.utils.data import DataLoader
from tqdm import tqdm

from mmvidformer import get_config
from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.video.choices import BACKENDS
from mmvidformer.video.errors import BadVideo

CHUNK = 100
CODECS = {"mp4v": ".mp4", "MJPG": ".avi", "XVID": ".avi", "VP80": ".webm"}


def generate(folder: Path) -> list[Path]:
    """Write videos of moving noise, one for each codec that this OpenCV can encode."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (96, 128, 3), dtype=np.uint8)
    made = []
    for codec, extension in CODECS.items():
        path = folder / f"generated_{codec}{extension}"
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*codec), 25, (128, 96))
        for step in range(60):
            writer.write(np.roll(noise, 2 * step, axis=1))
        writer.release()
        if path.exists() and path.stat().st_size > 1000:
            made.append(path)
    return made


def cut(data: bytearray, rng: random.Random) -> None:
    """Truncate."""
    del data[rng.randrange(len(data)) :]


def flip_bits(data: bytearray, rng: random.Random) -> None:
    """Flip 1 to 1000 bits anywhere."""
    for _ in range(round(10 ** rng.uniform(0, 3))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def damage_header(data: bytearray, rng: random.Random) -> None:
    """Overwrite 1 to 100 bytes in the first or the last 4 KiB, where containers have headers."""
    reach = min(4096, len(data))
    start = rng.choice([0, len(data) - reach])
    for _ in range(round(10 ** rng.uniform(0, 2))):
        data[start + rng.randrange(reach)] = rng.randrange(256)


DAMAGES = {"cut": cut, "bits": flip_bits, "header": damage_header}


@dataclass(frozen=True)
class Variant:
    """A file to read, and its damage, None for a good file."""

    path: Path
    source: Path
    damage: str | None


def damaged(turn: Sequence[Path], folder: Path, seed: int) -> Iterator[Variant]:
    """Yield variants without end, with all kinds of damage to all sources in turn."""
    number = 0
    while True:
        rng = random.Random(seed + number)
        damages = list(DAMAGES)
        damage = damages[number % len(damages)]
        source = turn[number // len(damages) % len(turn)]
        data = bytearray(source.read_bytes())
        DAMAGES[damage](data, rng)
        path = folder / f"{number}_{damage}{source.suffix}"
        path.write_bytes(data)
        yield Variant(path, source, damage)
        number += 1


class Reads:
    """Samples as label, fault and inputs; the draws of each are seeded by its file name."""

    def __init__(self, variants: Sequence[Variant], folder: Path, split: str, backend: str) -> None:
        cfg = get_config("vivit_fe_motion")
        set_video_backend(cfg, backend)
        ann_file = folder / f"{split}.txt"
        ann_file.write_text("".join(f"{v.path} {i}\n" for i, v in enumerate(variants)))
        inner = dict(
            type="VideoDataset",
            ann_file=str(ann_file),
            pipeline=cfg[f"{split}_pipeline"],
            test_mode=split == "test",
        )
        policy = "resample" if split == "test" else "raise"
        self.data = SafeDataset(inner, on_bad_video=policy, max_bad_share=1.0)
        self.seeds = [sum(variant.path.name.encode()) for variant in variants]

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[int, str | None, torch.Tensor | None]:
        """Read a sample."""
        random.seed(self.seeds[index])
        np.random.seed(self.seeds[index])
        torch.manual_seed(self.seeds[index])
        try:
            sample = self.data[index]
        except BadVideo as error:
            return index, error.reason, None
        data_sample = sample["data_samples"]
        return int(data_sample.gt_label), data_sample.get("bad_video"), sample["inputs"]


def read(reads: Reads, timeout: float) -> DataLoader:
    """Return an iterable of all samples in order, read by workers."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([SafeDataset.__module__])
    options = dict(batch_size=None, num_workers=2, timeout=timeout)
    return DataLoader(reads, multiprocessing_context=context, **options)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the test and return the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="damaged variants")
    parser.add_argument("--minutes", type=float, default=60, help="largest duration")
    parser.add_argument("--backend", choices=BACKENDS, default="pyav", help="video backend")
    parser.add_argument("--videos", help="folder of further videos to damage")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one sample")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--out", help="save the figures to this .json file")
    args = parser.parse_args(argv)
    init_default_scope("mmaction")
    MMLogger.get_current_instance().setLevel(logging.ERROR)
    decord.logging.set_level(decord.logging.QUIET)
    begin, done, failures = time.monotonic(), 0, []
    counts: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        turn = sources = generate(folder)
        if args.videos:
            files = [path.resolve() for path in sorted(Path(args.videos).iterdir())]
            yours = [path for path in files if path.is_file()]
            sources = [*sources, *yours]
            # Your clips are larger: one after all generated ones.
            generated, turn = turn, []
            for clip in yours:
                turn += [*generated, clip]
        good = [Variant(path, path, None) for path in sources]
        alone = {
            split: [
                inputs
                for _, _, inputs in read(Reads(good, folder, split, args.backend), args.timeout)
            ]
            for split in ("train", "test")
        }
        stream = damaged(turn, folder, args.seed)
        bar = tqdm(total=args.count, unit="variant", disable=None)
        while done < args.count and time.monotonic() - begin < 60 * args.minutes:
            new = [next(stream) for _ in range(min(CHUNK, args.count - done))]
            variants = [*good, *new]
            random.Random(done).shuffle(variants)
            for split in ("train", "test"):
                reads = Reads(variants, folder, split, args.backend)
                for number, (label, fault, inputs) in enumerate(read(reads, args.timeout)):
                    variant = variants[number]
                    if label != number:  # in testing a bad sample keeps its label
                        failures.append(f"{split} {variant.path.name}: not reported")
                    if variant.damage is not None:
                        how = "refused" if fault else "read"
                        counts[split, variant.damage, how] += 1
                    elif fault or not torch.equal(inputs, alone[split][good.index(variant)]):
                        failures.append(f"{split} {variant.path.name}: other numbers")
            for variant in new:
                variant.path.unlink()
            done += len(new)
            bar.update(len(new))
    figures = {
        "backend": args.backend,
        "variants": done,
        "sources": [path.name for path in sources],
        "minutes": round((time.monotonic() - begin) / 60, 1),
        "failures": failures,
        "outcomes": [
            dict(pipeline=split, damage=damage, outcome=how, count=count)
            for (split, damage, how), count in sorted(counts.items())
        ],
    }
    if args.out:
        Path(args.out).write_text(json.dumps(figures, indent=2) + "\n")
    print(f"{done} damaged variants of {len(sources)} videos, {figures['minutes']} minutes")
    for (split, damage, how), count in sorted(counts.items()):
        print(f"{split:6} {damage:7} {how:8} {count}")
    print("\n".join(failures) or "no crash, no hang, all reported, good files unchanged")
    return int(bool(failures))


if __name__ == "__main__":
    raise SystemExit(main())
