"""The paper's classifiers of the next action, verb and noun (appendix A.2 and A.3).

They read the means over places of y, e and STATT at each time step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from mmvidformer.errors import UserError
from mmvidformer.lookup import look_up

FORMS = {"official", "paper"}
Logits = dict[str, Tensor]
Features = tuple[Tensor, Tensor, Tensor]


class Classifier(nn.Module):
    """Base class of the classifiers: verb and noun are biased by the action.

    Args:
        width: Width of the features of the action.
        channels: Number of channels C.
        num_classes: Number of classes of ``action``, ``verb`` and ``noun``.
        form: ``'official'``, as in the published code, or ``'paper'``.
        outside: Whether the bias is added to the logits instead of the features.

    Raises:
        KeyError: If the form is unknown.
        UserError: If the tasks are not action, verb and noun.
    """

    def __init__(
        self, width: int, channels: int, num_classes: Mapping[str, int], form: str, outside: bool
    ) -> None:
        super().__init__()
        if num_classes.keys() != {"action", "verb", "noun"}:
            raise UserError(
                "the tasks must be action, verb and noun, as in dict(verb=125, noun=352, "
                f"action=2513), got {dict(num_classes)}"
            )
        look_up(FORMS, form, "classifier form")
        self.outside = outside
        self.action = nn.Linear(width, num_classes["action"])
        for task in ("verb", "noun"):
            classes = num_classes[task]
            setattr(self, task, nn.Linear(channels, classes))
            bias = nn.Linear(num_classes["action"], classes if outside else channels)
            setattr(self, f"action_to_{task}", bias)

    def forward(self, y: Tensor, e: Tensor, statt: Tensor, ahead: Sequence[int]) -> Logits:
        """Classify T time steps.

        Args:
            y: Means of y (B, T, C).
            e: Means of e (B, T, C).
            statt: Means of STATT (B, T, C).
            ahead: Number of time steps to the action from each of the T steps, at least 1.

        Returns:
            Logits (B, T, classes) by task.
        """
        action, verb, noun = self.features(y, e, statt, ahead)
        logits = {"action": self.action(action)}
        for task, chi in (("verb", verb), ("noun", noun)):
            classify, bias = getattr(self, task), getattr(self, f"action_to_{task}")
            biased = bias(logits["action"])
            logits[task] = classify(chi) + biased if self.outside else classify(chi + biased)
        return logits

    def features(self, y: Tensor, e: Tensor, statt: Tensor, ahead: Sequence[int]) -> Features:
        """Return what action, verb and noun are classified from, (B, T, width) each."""
        raise NotImplementedError


class LinearClassifier(Classifier):
    """Linear layers on the means, ``action = FC [y; e; STATT]``; appendix A.2.

    Verb and noun are ``FC(chi) + FC(action)`` in the official form, ``FC(chi + FC(action))`` in the
    paper's (eq. 16, 17). chi is e for the noun and STATT for the verb.
    """

    def __init__(self, channels: int, num_classes: Mapping[str, int], form: str = "official"):
        super().__init__(3 * channels, channels, num_classes, form, outside=form == "official")

    def features(self, y: Tensor, e: Tensor, statt: Tensor, ahead: Sequence[int]) -> Features:
        """See ``Classifier``; ``ahead`` is unused."""
        return torch.cat([y, e, statt], dim=-1), statt, e


class OfficialStart(nn.Module):
    """Initial hidden and cell state from one linear layer and a batch norm; the official code.

    In training the norm uses the statistics of each time step on its own, which needs more than one
    clip per batch.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(2 * channels, 2 * channels)
        self.norm = nn.BatchNorm1d(2 * channels)

    def forward(self, noun: Tensor, verb: Tensor) -> Sequence[Tensor]:
        """Return h0 and c0 from xi of noun and verb, (B, T, C) each."""
        both = self.fc(torch.cat([noun, verb], dim=-1))
        return torch.stack([self.norm(step) for step in both.unbind(1)], dim=1).chunk(2, dim=-1)


class PaperStart(nn.Module):
    """Initial hidden and cell state from linear layers on a common feature; eq. 20 to 22.

    The paper does not give the width of the feature; here it is 2 C, that of its input.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.feature = nn.Linear(2 * channels, 2 * channels)
        self.memory = nn.Linear(2 * channels, channels)
        self.hidden = nn.Linear(2 * channels, channels)

    def forward(self, noun: Tensor, verb: Tensor) -> Sequence[Tensor]:
        """Return h0 and c0 from xi of noun and verb, (B, T, C) each."""
        feature = self.feature(torch.cat([verb, noun], dim=-1)).relu()
        return self.hidden(feature), self.memory(feature)


class UnrollingClassifier(Classifier):
    """An LSTM that is unrolled over the unobserved time up to the action; see ``Classifier``.

    Its input is y, repeated for as many time steps as the action is ahead: ``tau_a`` x frames per
    second. Verb and noun are ``FC(xi + FC(action))`` in both forms, with xi from STATT in the
    official one and from e + STATT in the paper's (eq. 18, 19). Appendix A.3.
    """

    def __init__(self, channels: int, num_classes: Mapping[str, int], form: str = "official"):
        super().__init__(channels, channels, num_classes, form, outside=False)
        self.with_e = form == "paper"
        self.start = PaperStart(channels) if self.with_e else OfficialStart(channels)
        self.unroll = nn.LSTM(channels, channels, batch_first=True)
        self.xi_verb = nn.Linear(channels, channels)
        self.xi_noun = nn.Linear(channels, channels)

    def features(self, y: Tensor, e: Tensor, statt: Tensor, ahead: Sequence[int]) -> Features:
        """See ``Classifier``; ``e`` is used in the paper's form."""
        source = e + statt if self.with_e else statt
        noun, verb = self.xi_noun(source).relu(), self.xi_verb(source).relu()
        return unroll(self.unroll, y, self.start(noun, verb), ahead), verb, noun


def unroll(lstm: nn.LSTM, y: Tensor, start: Sequence[Tensor], ahead: Sequence[int]) -> Tensor:
    """Repeat the input y (B, T, C) of an LSTM ``ahead`` times; its last hidden states (B, T, C).

    ``start`` is h0 and c0, (B, T, C) each.
    """
    # The halves of one tensor are not contiguous; cuDNN and ONNX's export need them to be.
    first = tuple(x.flatten(0, 1)[None].contiguous() for x in start)
    steps: Any = y.flatten(0, 1)[:, None].expand(-1, max(ahead), -1)  # (B*T, most, C)
    if min(ahead) < max(ahead):  # all equal in a stream; an exported graph could not sort
        # Packing sorts by length, so that each cell processes only rows that are not finished.
        lengths = torch.tensor([*ahead] * len(y))
        steps = pack_padded_sequence(steps, lengths, batch_first=True, enforce_sorted=False)
    last = lstm(steps, first)[1][0][0]
    return last.unflatten(0, (y.shape[0], -1))  # len(y) is fixed in a graph


CLASSIFIERS = {"linear": LinearClassifier, "unrolling": UnrollingClassifier}
