"""Check published checkpoints: python tools/verify_published.py [NAME ...].

Fetches them, loads them into their configs, and compares logits with published ones. Without names
all of the table (mmvidformer/checkpoints/published.yml), several GB. The exit status is 1 if one
fails.
Needs a clone of the repository, since --write changes the table.
"""

import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import yaml
from huggingface_hub import hf_hub_download
from PIL import Image
from torch import Tensor
from torchvision.transforms.functional import resize

from mmvidformer.checkpoints import published
from mmvidformer.checkpoints.download import fetch, hash_of
from mmvidformer.checkpoints.reading import WEIGHTS
from mmvidformer.config import clip_shape, get_config, type_name
from mmvidformer.engine.checkpoint_config import config_of_checkpoint
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.loading import load_recognizer

VIDEOS = "hf-internal-testing/spaghetti-video"  # dataset of the hub
TOLERANCE = 1e-4


class Check(NamedTuple):
    """Input of a check: the first frames of a video, resized, cropped in the center, normalized.

    Mean and standard deviation are those of pixels from 0 to 255.
    """

    video: str
    frames: int
    short_side: int
    mean: float
    std: float


# As in the tests of transformers: defaults of VideoMAEImageProcessor, and of VivitImageProcessor,
# which scales pixels to [-1, 1] before it normalizes them with 0.5 and 0.5.
CHECKS = {
    "timesformer": Check("eating_spaghetti.npy", 8, 224, 127.5, 127.5),
    "videomae": Check("eating_spaghetti.npy", 16, 224, 127.5, 127.5),
    "vivit": Check("eating_spaghetti_32_frames.npy", 32, 256, 191.25, 63.75),
}


@dataclass
class Verified:
    """Result for a checkpoint."""

    name: str  # in the table
    sha256: str = ""  # of the file; empty if it could not be fetched
    size: int | None = None  # side of the frames of the check
    difference: float | None = None  # largest, from published logits; None if there are none
    error: str = ""  # why it could not be fetched or loaded

    @property
    def passed(self) -> bool:
        """Whether the checkpoint was loaded, and its logits are the published ones."""
        return not self.error and (self.difference or 0) <= TOLERANCE


def check_clip(check: Check, video: np.ndarray, size: int) -> Tensor:
    """Clip (1, 3, T, size, size) of a video (frames, H, W, 3) of type uint8."""
    frames = []
    for frame in video[: check.frames]:
        image = resize(Image.fromarray(frame), check.short_side * size // 224)
        top, left = (image.height - size) // 2, (image.width - size) // 2
        frames.append(np.asarray(image)[top : top + size, left : left + size])
    clip = torch.from_numpy(np.stack(frames)).permute(3, 0, 1, 2)[None].float()
    return (clip - check.mean) / check.std


@torch.no_grad()
def verify(row: published.Published) -> Verified:
    """Fetch a published checkpoint, load it into its config, and compute the logits of its check.

    The check was published without the size of the frames; of 224 pixels and the config's size
    the one with the smaller difference is reported.
    """
    result = Verified(row.name)
    source = published.PREFIX + row.name
    try:
        path = fetch(source)
        if path.is_dir():
            path = next(path / name for name in WEIGHTS if (path / name).is_file())
        result.sha256 = hash_of(path)
        cfg = get_config(row.config) if row.config else config_of_checkpoint(source).cfg
        if type_name(cfg.model.backbone) == "TimeSformer":
            # As HuggingFace's model.
            cfg.model.backbone.positions = dict(type="space_time", rule="nearest")
        model = load_recognizer(cfg, source)
        if not row.check:
            return result
        check, expected = CHECKS[row.check["input"]], torch.tensor(row.check["logits"])
        file = hf_hub_download(VIDEOS, check.video, repo_type="dataset")  # nosec B615
        video = np.load(file, allow_pickle=False)
        for size in sorted({224, clip_shape(cfg)[-1]}):
            logits = model.cls_head.fc_cls(model.backbone(check_clip(check, video, size)))
            difference = (logits[0, : len(expected)] - expected).abs().max().item()
            if result.difference is None or difference < result.difference:
                result.size, result.difference = size, difference
    except (OSError, ValueError) as error:
        result.error = str(error).partition("\n")[0]
    return result


def write_hashes(results: list[Verified]) -> None:
    """Write the hashes of those that passed into the table."""
    text = published.TABLE.read_text(encoding="utf-8")
    for result in filter(lambda one: one.passed, results):
        rows = re.findall(r"(?m)^- .*\n(?:  .*\n)*", text)
        row = next(row for row in rows if yaml.safe_load(row)[0]["name"] == result.name)
        kept = re.sub(r"(?m)^  sha256: .*\n", "", row)
        text = text.replace(row, f'{kept}  sha256: "{result.sha256}"\n')
    published.TABLE.write_text(text, encoding="utf-8")
    published.rows.cache_clear()


def report(results: list[Verified]) -> Iterator[str]:
    """Lines of a table of results."""
    yield f"{'name':52} {'difference':>10} {'pixels':>6}  sha256"
    for one in results:
        difference = "-" if one.difference is None else f"{one.difference:.1e}"
        outcome = one.error or (one.sha256 if one.passed else f"{one.sha256}  DIFFERS")
        yield f"{one.name:52} {difference:>10} {one.size or '-':>6}  {outcome}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--write", action="store_true", help="write hashes into the table")
    args = parser.parse_args(argv)
    rows = [published.row_of(published.PREFIX + name) for name in args.names] or published.rows()
    results = [verify(row) for row in rows if not row.address.startswith("timm:")]
    print("\n".join(report(results)))
    if args.write:
        write_hashes(results)
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(run_tool(main))
