"""Faster models whose answers differ a little, and how much: the first ones are computed twice."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from mmvidformer.models.inference import optimize_for_inference
from mmvidformer.models.video_transformer import VideoTransformer
from mmvidformer.tasks.changes import Change, Scores
from mmvidformer.tasks.table import task_of_head

FIRST = 16  # samples that are compared one after the other; then the 32nd, the 64th, ...


class SelfCheck:
    """Compares a model with the exact one on the first samples, and on fewer and fewer later.

    Args:
        exact: The exact model.
        what: What makes the other one inexact, for messages.
        has_classes: Whether the largest score of a row is an answer: that of a class.
        frees_exact: Whether the exact model is forgotten after the first samples, for its memory.

    Attributes:
        change: How the answers differ so far.
    """

    def __init__(
        self, exact: nn.Module, what: str, has_classes: bool = True, frees_exact: bool = False
    ) -> None:
        self.exact: Any = exact
        self.what, self.has_classes, self.frees_exact = what, has_classes, frees_exact
        self.change, self.seen = Change(), 0

    def compare_outputs(self, data: Mapping[str, Any], outputs: Sequence[Any]) -> None:
        """Compare what ``test_step`` returned for a batch; see ``compare``."""

        def run(exact: Any) -> list[Scores]:
            samples = copy.deepcopy(data["data_samples"])  # heads write into them
            return [
                scores_of(sample) for sample in exact.test_step({**data, "data_samples": samples})
            ]

        self.compare([scores_of(output) for output in outputs], run)

    @torch.no_grad()
    def compare(
        self, inexact_scores: Sequence[Scores], run: Callable[[nn.Module], Sequence[Scores]]
    ) -> None:
        """Compare the scores of successive samples, if it is their turn.

        Args:
            inexact_scores: Scores of the inexact model.
            run: Function of the exact model, which returns its scores for the same samples.

        Raises:
            TooInexact: If more answers changed than a tenth.
        """
        before, self.seen = self.seen, self.seen + len(inexact_scores)
        exact = self.exact
        if exact is None or not is_due(before, self.seen):
            return
        for expected, scores in zip(run(exact), inexact_scores, strict=True):
            self.change.add(expected, scores, self.has_classes)
        self.change.check(self.what)
        if self.frees_exact and self.seen >= FIRST:
            self.exact = None

    def report(self) -> str:
        """Say how the answers differ."""
        return f"{self.what}: {self.change}"


def is_due(before: int, seen: int) -> bool:
    """Return whether one of the samples from ``before`` on is compared."""
    return before < FIRST or before.bit_length() < seen.bit_length()


def scores_of(sample: Any) -> Scores:
    """Return copies of the scores of a data sample that a head returned."""
    scores = sample.get("pred_score")
    if scores is None:
        instances = sample.get("pred_instances")
        scores = torch.zeros(0) if instances is None else instances.scores
    by_output = scores if isinstance(scores, Mapping) else {"": scores}
    return {name: value.detach().clone() for name, value in by_output.items()}


def gives_classes(model: Any) -> bool:
    """Return whether the largest score of a recognizer is its answer: a class."""
    task = task_of_head(model.cls_head)
    return task.activation is not None and not task.finds_parts


def make_fast(
    model: Any, int8: bool = False, static: float | None = None, has_head: bool = True
) -> tuple[nn.Module | None, SelfCheck | None]:
    """Make a faster copy of a recognizer, and what compares its answers, if they differ.

    Args:
        model: The recognizer, in evaluation mode. The copy shares its weights but those of 8 bits.
        int8: See ``optimize_for_inference``.
        static: Tolerance of run lengths (``models.run_lengths``), in the mean of pixels of 0 to
            255. None: without them.
        has_head: Whether what is compared is of its head.

    Returns:
        The copy, None without a ``VideoTransformer``; and what compares, None if all is exact.

    Raises:
        ValueError: If the model cannot have 8 bits, or run lengths.
    """
    backbone = model.backbone
    reasons = ["int8"] if int8 else []
    if static is not None:
        reasons.append(f"still parts (up to {static:g} of 255) computed once")
    if not isinstance(backbone, VideoTransformer):
        if reasons:
            name = type(backbone).__name__
            raise ValueError(f"{' and '.join(reasons)}: for a VideoTransformer, got {name}")
        return None, None
    fast: Any = optimize_for_inference(model, share_weights=True)
    if not reasons:
        return fast, None
    check = SelfCheck(fast, " and ".join(reasons), has_head and gives_classes(model), int8)
    fast = optimize_for_inference(fast, share_weights=True, int8=int8)
    if static is not None:
        std = getattr(model.data_preprocessor, "std", None)
        fast.backbone.compute_runs(static if std is None else static / std.mean().item())
    return fast, check
