"""What a task says of exported heads: their outputs, and what these mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn


class Exported:
    """The outputs of an exported head. The defaults are those of one output with scores.

    Attributes:
        activation: As in ``Answers``.
        input_names: Names of the inputs.
        head_options: Further options of ``run_head``.
        output_name: Name of the output.
        value_outputs: Names of the outputs that hold values, and no scores of classes.
    """

    activation: str | None
    input_names: tuple[str, ...] = ("clip",)
    head_options: tuple[str, ...] = ()
    output_name = "logits"
    value_outputs: tuple[str, ...] = ()

    def output_names(self, head: nn.Module) -> list[str]:
        """Return the names of the outputs of a head."""
        return [self.output_name]

    def run_head(self, head: nn.Module, features: Any, **options: Any) -> tuple[Tensor, ...]:
        """Map features of one view of each clip to the outputs.

        Args:
            head: The head.
            features: What the backbone, or the neck, returns.
            **options: What else the head needs, such as ``boxes``.
        """
        return (head(features, **options),)

    def describe_outputs(
        self, head: nn.Module, names: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[str, Any]]:
        """Describe the outputs by name.

        Of each: ``classes``, or the names of values; ``activation``, which makes probabilities of
        logits, or None; ``views``, what is averaged over the views of a video; ``shape``; and if
        one output has the classes of several tasks, ``tasks``, their numbers of classes, in this
        order.

        Args:
            head: The head.
            names: Names of the classes or values by task.
        """
        described = {**self.describe_scores(head), "classes": list_classes(names)}
        if len(names) > 1:
            described["tasks"] = {task: len(labels) for task, labels in names.items()}
            described["activation"] = f"{described['activation']} of each task"
        return {self.output_name: described}

    def describe_scores(self, head: nn.Module) -> dict[str, Any]:
        """Describe what ``output_name`` holds: ``shape``, ``activation`` and ``views``."""
        score = getattr(head, "average_clips", None) == "score"
        return {
            "shape": getattr(head, "output_shape", "(batch, classes)"),
            "activation": self.activation,
            "views": "mean of logits" if score else "mean of probabilities",
        }


def list_classes(names: Mapping[str, Sequence[str]]) -> list[str]:
    """Names of the classes of all tasks in the order of the logits, as ``'verb: open'``."""
    if len(names) == 1:
        return list(*names.values())
    return [f"{task}: {label}" for task, labels in names.items() for label in labels]
