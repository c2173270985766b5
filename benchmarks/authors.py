"""Encoders beside their authors' code, in turn: python -m benchmarks.authors --videoprism CLONE.

Clones of google-deepmind/videoprism, google-deepmind/trecvit, Go2Heart/StreamFormer and
facebookresearch/vjepa2; --jax-python is an interpreter with what the first two need. The authors'
code draws the weights, which ours reads as a file of theirs. All outputs must be equal (1e-4)
before anything is measured. Base models, one clip, one thread; the models take turns in rounds.

"CPU s" is the median over the rounds, "authors / optimized" the median of the quotients of each.
Start it with taskset -c 0, since JAX has threads of its own.
"""

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.compare import TOLERANCE
from benchmarks.models import machine
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.timing import time_call
from benchmarks.versions import versions
from mmvidformer.checkpoints import read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.engine.tables import print_table
from mmvidformer.errors import UserError
from mmvidformer.layers import POOLINGS
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.heads import HiddenLayerHead

# Frames, rows and columns of the published base models; V-JEPA 2.1 was trained with 64 frames, too.
CLIPS = {
    "videoprism": (16, 288, 288),
    "trecvit": (32, 224, 224),
    "streamformer": (16, 224, 224),
    "vjepa2_1": (16, 384, 384),
}
IN_JAX = ("videoprism", "trecvit")
AUTHORS, PLAIN, OPTIMIZED, PEER = "authors", "plain", "optimized", "HuggingFace"
COLUMNS = ("encoder", "model", "CPU s", "s", "authors / optimized", "difference")


class Encoder(nn.Module):
    """The model of converted weights; its output is that of the authors' code."""

    def __init__(self, result: Conversion) -> None:
        super().__init__()
        self.backbone = VideoTransformer(**backbone_arguments(result))
        self.cls_head = nn.Module()
        self.scheme, dim = result.scheme, self.backbone.embed_dims
        if self.scheme == "trecvit":
            classes = len(result.state["cls_head.fc_cls.bias"])
            self.cls_head = HiddenLayerHead(classes, dim, **result.head)
        elif self.scheme == "streamformer":
            options = dict(num_heads=result.num_heads, norm=result.head["norm"])
            self.cls_head.pooling = POOLINGS.build(result.head["pooling"], dim=dim, **options)
        self.load_state_dict(result.state)

    def forward(self, clip: Tensor) -> Tensor:
        """Return logits, pooled frames or tokens."""
        tokens = self.backbone(clip)
        if self.scheme == "trecvit":
            return self.cls_head(tokens)
        if self.scheme == "streamformer":
            return self.cls_head.pooling(tokens.flatten(0, 1)).unflatten(0, tokens.shape[:2])
        return tokens.flatten(1, 3)


class HuggingFace(nn.Module):
    """VideoPrism of transformers, the only one of ``CLIPS`` that it has."""

    def __init__(self, ours: Encoder) -> None:
        super().__init__()
        from transformers import VideoPrismVisionModel
        from transformers.models.videoprism import VideoPrismVisionConfig

        self.model = VideoPrismVisionModel(VideoPrismVisionConfig())
        self.model.load_state_dict(to_other(ours.state_dict(), "videoprism"))

    def forward(self, clip: Tensor) -> Tensor:
        """Return tokens."""
        return self.model(clip.transpose(1, 2)).last_hidden_state


class AuthorsCode:
    """A process with the authors' code (``authors_code``)."""

    def __init__(self, python: str, name: str, clone: Path, folder: Path) -> None:
        script = Path(__file__).with_name("authors_code.py")
        self.process = subprocess.Popen(
            [python, str(script), name, str(clone), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def _answer(self) -> str:
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the authors' code ended with {self.process.wait()}; see above")
        return answer

    def time(self) -> tuple[float, float]:
        """Run once, and return the seconds of wall-clock and of CPU time."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, cpu_seconds = map(float, self._answer().split())
        return seconds, cpu_seconds

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def measure(name: str, clone: Path, python: str, rounds: int) -> list[list[str]]:
    """Measure an encoder in all forms.

    Returns:
        Rows of ``COLUMNS``.

    Raises:
        UserError: If an output is not that of the authors' code.
        RuntimeError: If the authors' code fails.
    """
    clip = torch.rand(1, *CLIPS[name], 3, generator=torch.Generator().manual_seed(0))
    with TemporaryDirectory() as text:
        folder = Path(text)
        np.save(folder / "clip.npy", clip.numpy())
        code = AuthorsCode(python, name, clone, folder)
        (weights,) = folder.glob("weights.*")
        expected = torch.from_numpy(np.load(folder / "output.npy"))
        models = build_models(read_model(weights)[1])
    frames = clip.permute(0, 4, 1, 2, 3).contiguous()
    timers: dict[str, Callable[[], tuple[float, float]]] = {AUTHORS: code.time}
    differences = {AUTHORS: 0.0}
    with torch.inference_mode():
        for form, model in models.items():
            differences[form] = (model(frames) - expected).abs().max().item()
            if not differences[form] <= TOLERANCE:
                raise UserError(
                    f"the outputs of {name}, {form}, differ from the authors' by "
                    f"{differences[form]:.1e}, but at most {TOLERANCE:.0e} is allowed"
                )
            timers[form] = partial(time_call, partial(model, frames), "cpu")
        times = {form: [] for form in timers}
        for _ in range(rounds):
            for form, timer in timers.items():
                times[form].append(timer())
                print(f"{name}, {form}: {times[form][-1][1]:.3f} s of CPU time", flush=True)
    code.close()
    quotients = [a[1] / b[1] for a, b in zip(times[AUTHORS], times[OPTIMIZED], strict=True)]
    rows = []
    for form, pairs in times.items():
        seconds, cpu_seconds = (median(values) for values in zip(*pairs, strict=True))
        quotient = f"{median(quotients):.2f}" if form == AUTHORS else ""
        row = [name, form, f"{cpu_seconds:.3f}", f"{seconds:.3f}", quotient]
        rows.append([*row, f"{differences[form]:.1e}"])
    return rows


def build_models(result: Conversion) -> dict[str, nn.Module]:
    """Build our forms of converted weights, and the model of transformers if it has one."""
    ours = Encoder(result).eval()
    models: dict[str, nn.Module] = {PLAIN: ours, OPTIMIZED: optimize_for_inference(ours)}
    if result.scheme == "videoprism":
        models[PEER] = HuggingFace(ours).eval()
    return models


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    for name in CLIPS:
        parser.add_argument(f"--{name}", type=Path, metavar="CLONE")
    parser.add_argument("--jax-python", default=sys.executable, help="interpreter with JAX")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds (default 3)")
    parser.add_argument("--out", type=Path, help="csv file")
    args = parse_with_results(parser, argv, with_suffixes(""))
    torch.set_num_threads(1)
    print(f"{machine('cpu', 1)}; {versions()}")
    rows = []
    for name in CLIPS:
        clone = getattr(args, name)
        if clone is None:
            continue
        python = args.jax_python if name in IN_JAX else sys.executable
        rows += measure(name, clone, python, args.rounds)
        # After each one, in case this process is stopped.
        print_table(COLUMNS, rows, "one clip, one thread", args.out)


if __name__ == "__main__":
    main()
