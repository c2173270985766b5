"""How fast a model can be on this machine: variants of it, timed in turn, and their answers."""

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from tqdm import tqdm

from mmvidformer.apis.answer_changes import Answer, add_change, answer_of, gives_classes
from mmvidformer.apis.fast import make_fast
from mmvidformer.apis.pipeline import normalize
from mmvidformer.errors import UserError
from mmvidformer.models.fast.compiled_blocks import compile_blocks
from mmvidformer.models.fast.int8 import bytes_of_weights, layer_errors
from mmvidformer.models.fast.run_lengths import find_runs, share_computed, without_runs
from mmvidformer.models.fast.run_rules import rule_of
from mmvidformer.tasks.changes import Change

STARTS = {"init_from", "init_cfg", "pretrained"}  # arguments of backbones
RATE = 30.0  # frames per second of the noise

Batch = dict[str, list]  # a sample of a pipeline, as a batch of one


@dataclass
class Variant:
    """A model to be timed, and what was found.

    Attributes:
        name: Its name.
        model: The recognizer; None if it cannot run.
        context: Makes the context in which it runs.
        note: What else is to be said, or why it cannot run.
        seconds: Wall-clock seconds of each round over all clips, for one clip.
        cpu_seconds: Those of all threads together.
        change: How its answers differ from those of the plain model.
        gpu_bytes: Most memory of its GPU in use, by all variants that were made before, too.
        layers: Errors of its linear layers in 8 bits, by name.
    """

    name: str
    model: Any = None
    context: Callable[[], AbstractContextManager] = nullcontext
    note: str = ""
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    change: Change = field(default_factory=Change)
    gpu_bytes: int | None = None
    layers: dict[str, float] = field(default_factory=dict)

    @torch.no_grad()
    def run(self, batch: Batch) -> Answer:
        """Return the answer for a sample."""
        samples = copy.deepcopy(batch["data_samples"])  # heads write into them
        with self.context():
            (output,) = self.model.test_step({**batch, "data_samples": samples})
        return answer_of(output)

    def time(self, batches: Sequence[Batch]) -> None:
        """Run all clips once, and note the time of one."""
        start = time.perf_counter(), time.process_time()
        for batch in batches:
            self.run(batch)
        device = next(self.model.parameters()).device
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        self.seconds.append((time.perf_counter() - start[0]) / len(batches))
        self.cpu_seconds.append((time.process_time() - start[1]) / len(batches))

    def row(self) -> dict[str, Any]:
        """Return the figures by name."""
        if not self.seconds:
            return dict(name=self.name, note=self.note)
        difference = self.change.difference
        return dict(
            name=self.name,
            seconds=median(self.seconds),
            cpu_seconds=median(self.cpu_seconds),
            weight_bytes=bytes_of_weights(self.model),
            gpu_bytes=self.gpu_bytes,
            answers=self.change.answers,
            changed=self.change.changed,
            difference=difference if math.isfinite(difference) else None,  # as JSON has it
            note=self.note,
            layers=self.layers,
        )


def make_variants(
    model: Any, batches: Sequence[Batch], static: float | None, compiles: bool
) -> Iterator[Variant]:
    """Make the variants of a recognizer in evaluation mode; those that cannot run say why.

    Args:
        model: The recognizer. It must not change.
        batches: Clips, for the errors of layers.
        static: Tolerance of run lengths; None: without them.
        compiles: Whether to compile the blocks, which takes a minute.
    """
    model = without_runs(model)
    yield Variant("plain", model)
    fast = make_fast(model)
    if fast is None:
        what = f"not for {type(model.backbone).__name__}"
        yield Variant("optimized", note=what)
        return
    yield Variant("optimized", fast)
    device = next(model.parameters()).device.type
    autocast = partial(torch.autocast, device, torch.bfloat16)
    note = "weights are kept in 16 bits, too" if device == "cpu" else ""
    yield Variant("bfloat16", fast, autocast, note)
    options: dict[str, dict[str, Any]] = {"int8": dict(int8=True)}
    if static is not None:
        options["run lengths"] = dict(static=static)
        options["int8, run lengths"] = dict(int8=True, static=static)
    for name, arguments in options.items():
        try:
            variant = Variant(name, make_fast(fast, **arguments))
        except ValueError as error:
            variant = Variant(name, note=str(error))
        if name == "int8" and variant.model is not None:
            variant.layers = layer_errors(fast, lambda model: Variant("", model).run(batches[0]))
            variant.note = worst_layer(variant.layers)
        if name == "run lengths" and variant.model is not None:
            share = mean_share(variant.model, batches)
            variant.note = f"{share:.0%} of the tokens; {rule_of(variant.model.backbone)}"
        yield variant
    if compiles:
        compiled = copy.deepcopy(model)
        compile_blocks(compiled.backbone)
        yield Variant("compiled", compiled)


def worst_layer(errors: Mapping[str, float]) -> str:
    """Name the layer that int8 hurts most."""
    name = max(errors, key=errors.__getitem__)
    return f"largest error of a layer: {errors[name]:.1%} ({name})"


def mean_share(model: Any, batches: Sequence[Batch]) -> float:
    """Return the mean share of the tokens of a clip that a model with run lengths computes."""
    backbone, shares = model.backbone, []
    for batch in batches:
        clips = normalize(model, batch["inputs"][0])
        shares.append(share_computed(find_runs(backbone, clips, backbone.static)))
    return sum(shares) / len(shares)


def measure(
    model: Any, batches: Sequence[Batch], rounds: int, static: float | None, compiles: bool
) -> list[Variant]:
    """Time the variants of a recognizer in turn, and compare their answers with the model's.

    Args:
        model: The recognizer, in evaluation mode.
        batches: Clips, each a sample of a pipeline as a batch of one.
        rounds: Number of times that each variant runs all clips, after one that is not timed.
        static: See ``make_variants``.
        compiles: Likewise.
    """
    variants = []
    expected: list[Answer] = []
    device = next((weight.device for weight in model.parameters()), torch.device("cpu"))
    for variant in make_variants(model, batches, static, compiles):
        variants.append(variant)
        if variant.model is None:
            continue
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        try:
            answers = [variant.run(batch) for batch in batches]
        except (RuntimeError, NotImplementedError) as error:  # of compilers, and of operators
            lines = str(error).splitlines() or [type(error).__name__]
            variant.model, variant.note = None, lines[0][:160]
            continue
        if device.type == "cuda":
            variant.gpu_bytes = torch.cuda.max_memory_allocated(device)
        expected = expected or answers
        for exact, answer in zip(expected, answers, strict=True):
            add_change(variant.change, exact, answer, gives_classes(model))
    timed = [variant for variant in variants if variant.model is not None]
    for _ in range(rounds):
        for variant in timed:
            variant.time(batches)
    return variants


def with_random_weights(cfg: Config) -> Config:
    """Return a copy of a config whose backbone starts from no weights, MMAction2's too."""
    cfg = copy.deepcopy(cfg)
    for source in STARTS & cfg.model.backbone.keys():
        cfg.model.backbone[source] = None
    return cfg


def read_clips(recognizer: Any, video: str | None, count: int) -> list[dict]:
    """Read the first windows of a video, or of noise.

    Raises:
        UserError: If the model has no clips alone, or the video cannot be read.
    """
    if recognizer.task.needs_boxes:
        raise UserError("a model of boxes needs them; speed is for models of clips")
    pipeline = recognizer.pipeline
    if video is None:
        noise = np.random.default_rng(0).integers(0, 256, (128, 256, 340, 3), np.uint8)
        opened = pipeline.open(noise, RATE)
    else:
        opened = pipeline.open(video)
    windows = recognizer.windows(opened)
    places = np.linspace(0, len(windows) - 1, min(count, len(windows))).astype(int)
    return [pipeline.read(opened, windows[place].span) for place in tqdm(places, disable=None)]


def as_batches(samples: Sequence[dict[str, Any]]) -> list[Batch]:
    """Make batches of one of samples of a pipeline."""
    return [{key: [part] for key, part in sample.items()} for sample in samples]
