"""Action anticipation: the verb, noun and action that come next."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.prediction import Names, Prediction


class ActionAnticipation(Task):
    """What comes next, after each frame of a video. ``finetune`` does not offer it."""

    name, head = "anticipation", "mmvidformer.AnticipationHead"
    part, has_windows = "steps", False
    is_about_future = True
    options, head_options = (), ("ahead",)

    def parts(
        self, reader: Any, video: Any, fps: float | None, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Raise a ``UserError``: videos are read frame by frame."""
        raise UserError("a model of anticipation answers frame by frame")

    def frame_scores(
        self, head: nn.Module, output: Any, steps_ahead: Sequence[int]
    ) -> dict[str, Tensor]:
        """Map what the neck returns for a frame to logits (times, classes) of each output."""
        if steps_ahead:
            parts = (part.expand(-1, len(steps_ahead), -1, -1, -1) for part in output)
            output = type(output)(*parts)
        logits = head(output, ahead=steps_ahead or [1])  # (1, times, classes) each
        return {task: rows[0] for task, rows in logits.items()}

    def example(self, names: Names, **where: Any) -> Prediction:
        """Return a prediction with seconds ahead."""
        return super().example(names, ahead=0.0, **where)

    def heading(self, prediction: Prediction) -> str:
        """Say that it comes next, and when if that is known."""
        return "next" if prediction.ahead is None else f"next in {prediction.ahead:.2f} s"

    def output_names(self, head: nn.Module) -> list[str]:
        """Return the names of the outputs: verb, noun and action."""
        return [*head.tasks]

    def run_head(
        self, head: nn.Module, features: Any, ahead: int | None = None, **options: Any
    ) -> tuple[Tensor, ...]:
        """Map features to logits at the last frame.

        Args:
            head: The head.
            features: Outputs of the neck or the backbone.
            ahead: Number of time steps from there to the action. Default: the head's
                ``logged_time``.
            **options: Not used.
        """
        logits = head(features, ahead=[ahead or head.logged_time])
        return tuple(logits[task][:, -1] for task in head.tasks)

    def describe_outputs(self, head: nn.Module, names: Names) -> dict[str, dict[str, Any]]:
        """Describe the logits of each output."""
        scores = self.describe_scores(head)
        return {name: {**scores, "classes": list(names[name])} for name in head.tasks}
