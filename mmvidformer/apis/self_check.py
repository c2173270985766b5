"""Faster models whose answers differ a little, and how much: the first ones are computed twice."""

import copy
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Instances
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.soft_nms import segment_iou
from mmvidformer.models.video_transformer import VideoTransformer
from mmvidformer.tasks.changes import Change, Scores, largest_difference
from mmvidformer.tasks.table import task_of_head

FIRST = 16  # samples that are compared one after the other; then the 32nd, the 64th, ...
SURE = 0.3  # least score of a segment that is an answer, as in ``Recognizer.timeline``

Answer = Scores | Instances  # of a sample; ``Instances`` of ``SegmentsHead``: its segments


class SelfCheck:
    """Compares a model with the exact one on the first samples, and on fewer and fewer later.

    Threads may share it. Once too many answers changed, each further call says so.

    Args:
        exact: The exact model.
        what: What makes the other one inexact, for messages.
        has_classes: Whether the largest score of a row is an answer: that of a class. Segments are
            answers in any case.
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
        self._lock = Lock()

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, _lock=Lock())

    def compare_outputs(self, data: Mapping[str, Any], outputs: Sequence[Any]) -> None:
        """Compare what ``test_step`` returned for a batch; see ``compare``."""

        def run(exact: Any) -> list[Answer]:
            samples = copy.deepcopy(data["data_samples"])  # heads write into them
            return [
                answer_of(sample) for sample in exact.test_step({**data, "data_samples": samples})
            ]

        self.compare([answer_of(output) for output in outputs], run)

    @torch.no_grad()
    def compare(
        self, answers: Sequence[Answer], run: Callable[[nn.Module], Sequence[Answer]]
    ) -> None:
        """Compare the answers for successive samples, if it is their turn.

        Args:
            answers: Answers of the inexact model.
            run: Function of the exact model, which returns its answers for the same samples.

        Raises:
            TooInexact: If more answers changed than a tenth.
        """
        self.change.check(self.what)
        with self._lock:
            before, self.seen = self.seen, self.seen + len(answers)
            exact = self.exact if is_due(before, self.seen) else None
        if exact is not None:
            self._add(run(exact), answers)

    def beside_stream(self) -> Any:
        """Return the exact model while it runs beside a stream, for the first samples; else None.

        It has a state of its own. So whoever follows a stream begins with it, and calls ``add``.

        Raises:
            TooInexact: If more answers changed than a tenth.
        """
        self.change.check(self.what)
        return self.exact if self.seen < FIRST else None

    def add(self, expected: Sequence[Answer], answers: Sequence[Answer]) -> None:
        """Compare the answers for the next samples with the exact ones; see ``compare``."""
        with self._lock:
            self.seen += len(answers)
        self._add(expected, answers)

    def _add(self, expected: Sequence[Answer], answers: Sequence[Answer]) -> None:
        with self._lock:
            for exact_answer, answer in zip(expected, answers, strict=True):
                add_change(self.change, exact_answer, answer, self.has_classes)
            if self.frees_exact and self.seen >= FIRST:
                self.exact = None
        self.change.check(self.what)

    def report(self) -> str:
        """Say how the answers differ."""
        return f"{self.what}: {self.change}"


def is_due(before: int, seen: int) -> bool:
    """Return whether one of the samples from ``before`` on is compared."""
    return before < FIRST or before.bit_length() < seen.bit_length()


def answer_of(sample: Any) -> Answer:
    """Return copies of what a head wrote into a data sample: scores, or segments."""
    scores = sample.get("pred_score")
    if scores is None:
        instances = sample.get("pred_instances")
        if instances is not None and "segments" in instances:
            return Instances({name: copied(value) for name, value in instances.items()})
        scores = torch.zeros(0) if instances is None else instances.scores
    by_output = scores if isinstance(scores, Mapping) else {"": scores}
    return {name: copied(value) for name, value in by_output.items()}


def copied(values: Tensor) -> Tensor:
    """Return a copy without gradients."""
    return values.detach().clone()


def add_change(change: Change, expected: Answer, answer: Answer, has_classes: bool) -> None:
    """Compare the answer for a sample with the exact one.

    Segments of a class are the same if they overlap by more than half (IoU). A sure one of either
    model, which the other one does not find, is an answer that changed.
    """
    if not isinstance(expected, Instances):
        change.add(expected, answer, has_classes)
        return
    for segments, others in ((expected, answer), (answer, expected)):
        partners = partner_scores(segments, others)
        is_sure = segments.scores >= SURE
        is_lost = is_sure & ~(partners > 0)
        change.answers += int((is_sure if segments is expected else is_lost).sum())
        change.changed += int(is_lost.sum())
        if len(partners):
            difference = largest_difference(partners, segments.scores)
            change.difference = max(change.difference, difference)


def partner_scores(segments: Instances, others: Instances) -> Tensor:
    """Return the score (n,) of the same segment among others; 0: they lack it."""
    partners = torch.zeros_like(segments.scores)
    if not len(others.scores):
        return partners
    for number, label in enumerate(segments.labels):
        overlaps = segment_iou(segments.segments[number], others.segments)
        overlap, place = (overlaps * (others.labels == label)).max(dim=0)
        if overlap > 0.5:
            partners[number] = others.scores[place]
    return partners


def gives_classes(model: Any) -> bool:
    """Return whether the largest score of a recognizer is its answer: a class."""
    return task_of_head(model.cls_head).activation is not None


def make_fast(
    model: Any, int8: bool = False, static: float | None = None, has_head: bool = True
) -> tuple[nn.Module | None, SelfCheck | None]:
    """Make a faster copy of a recognizer, and what compares its answers, if they differ.

    Args:
        model: The recognizer, in evaluation mode. The copy shares its weights but those of 8 bits.
        int8: See ``optimize_for_inference``.
        static: Tolerance of run lengths (``fast.run_lengths``), in the mean of pixels of 0 to
            255, if all colors have one standard deviation. None: that of the model, if any.
        has_head: Whether what is compared is of its head.

    Returns:
        The copy, None without a ``VideoTransformer``; and what compares, None if all is exact.

    Raises:
        UserError: If the model cannot have 8 bits, or run lengths.
    """
    backbone = model.backbone
    reasons = ["int8"] if int8 else []
    if static is not None:
        reasons.append(f"still parts (up to {static:g} of 255) computed once")
    elif getattr(backbone, "static", None) is not None:
        reasons.append(f"still parts computed once (static={backbone.static:g} of the model)")
    if not isinstance(backbone, VideoTransformer):
        if reasons:
            name = type(backbone).__name__
            raise UserError(f"{' and '.join(reasons)}: for a VideoTransformer, got {name}")
        return None, None
    fast: Any = optimize_for_inference(model, share_weights=True)
    if not reasons:
        return fast, None
    exact, fast = fast, optimize_for_inference(fast, share_weights=True, int8=int8)
    exact.backbone.static = None
    if static is not None:
        std = getattr(model.data_preprocessor, "std", None)
        fast.backbone.static = static if std is None else static / std.mean().item()
    has_classes = has_head and gives_classes(model)
    return fast, SelfCheck(exact, " and ".join(reasons), has_classes, frees_exact=int8)
