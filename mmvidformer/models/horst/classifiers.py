"""The paper's classifiers of the next action, its verb and its noun (appendix A.2 and A.3).

Each reads the means over places of a layer's y, e and STATT, for each step, and gives logits of
action, verb and noun. Paper and official code differ:

===========  ==========================================  ======================================
classifier   official code (default)                     paper
===========  ==========================================  ======================================
linear       ``FC(chi) + FC(action)``                    ``FC(chi + FC(action))`` (eq. 16, 17)
unrolling    xi from STATT                               xi from e + STATT (eq. 18, 19)
unrolling    ``[h0; c0] = BN(FC [xi_n; xi_v])``          h0, c0 = FC of ``ReLU(FC [xi_v; xi_n])``
===========  ==========================================  ======================================

chi is e for the noun and STATT for the verb.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from mmvidformer.lookup import look_up

TASKS = ("action", "verb", "noun")
FORMS = {"official", "paper"}
Logits = dict[str, Tensor]


def check_tasks(num_classes: Mapping[str, int]) -> None:
    """Refuse other tasks than action, verb and noun.

    Raises:
        ValueError: If they are others.
    """
    if set(num_classes) != set(TASKS):
        raise ValueError(
            f"anticipation has the tasks {TASKS}, as in dict(verb=125, noun=352, action=2513); "
            f"got {dict(num_classes)}"
        )


class LinearClassifier(nn.Module):
    """Linear layers on the means, verb and noun biased by the action; appendix A.2.

    ``action = FC [y; e; STATT]``.

    Args:
        channels: C.
        num_classes: Classes of ``action``, ``verb`` and ``noun``.
        form: ``'official'`` or ``'paper'``.

    Raises:
        KeyError: If the form is unknown.
        ValueError: If the tasks are others.
    """

    def __init__(self, channels: int, num_classes: Mapping[str, int], form: str = "official"):
        super().__init__()
        check_tasks(num_classes)
        self.outside = look_up(FORMS, form, "classifier form") == "official"
        self.action = nn.Linear(3 * channels, num_classes["action"])
        for task in ("verb", "noun"):
            classes = num_classes[task]
            setattr(self, task, nn.Linear(channels, classes))
            bias = nn.Linear(num_classes["action"], classes if self.outside else channels)
            setattr(self, f"action_to_{task}", bias)

    def forward(self, y: Tensor, e: Tensor, statt: Tensor, ahead: Sequence[int]) -> Logits:
        """Classify the means (B, T, C) of T steps.

        Args:
            y: Means of y.
            e: Means of e.
            statt: Means of STATT.
            ahead: How many steps ahead the action starts; not needed here.

        Returns:
            Logits (B, T, classes) by task.
        """
        action = self.action(torch.cat([y, e, statt], dim=-1))
        logits = {"action": action}
        for task, chi in (("verb", statt), ("noun", e)):
            classify, bias = getattr(self, task), getattr(self, f"action_to_{task}")(action)
            logits[task] = classify(chi) + bias if self.outside else classify(chi + bias)
        return logits


class OfficialStart(nn.Module):
    """Hidden and memory state as one linear layer and a batch norm; the official code.

    In training the norm takes its statistics from each step's batch alone, which needs more than
    one clip.

    Args:
        channels: C.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(2 * channels, 2 * channels)
        self.norm = nn.BatchNorm1d(2 * channels)

    def forward(self, noun: Tensor, verb: Tensor) -> tuple[Tensor, Tensor]:
        """Give h0 and c0 (B, T, C) from xi of noun and verb (B, T, C)."""
        both = self.fc(torch.cat([noun, verb], dim=-1))
        return torch.stack([self.norm(step) for step in both.unbind(1)], dim=1).chunk(2, dim=-1)


class PaperStart(nn.Module):
    """Hidden and memory state as layers on a common feature; eq. 20 to 22.

    The paper gives no width of the feature; here 2 C, that of its input.

    Args:
        channels: C.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.feature = nn.Linear(2 * channels, 2 * channels)
        self.memory = nn.Linear(2 * channels, channels)
        self.hidden = nn.Linear(2 * channels, channels)

    def forward(self, noun: Tensor, verb: Tensor) -> tuple[Tensor, Tensor]:
        """Give h0 and c0 (B, T, C) from xi of noun and verb (B, T, C)."""
        feature = self.feature(torch.cat([verb, noun], dim=-1)).relu()
        return self.hidden(feature), self.memory(feature)


class UnrollingClassifier(nn.Module):
    """An LSTM runs over the time that is not seen, up to the action; appendix A.3.

    Its input is y again and again, as many times as the action is steps ahead: ``tau_a`` x frames
    per second. RULSTM unrolls once more. Verb and noun are ``FC(xi + FC(action))`` in both forms.

    Args:
        channels: C.
        num_classes: Classes of ``action``, ``verb`` and ``noun``.
        form: ``'official'`` or ``'paper'``.

    Raises:
        KeyError: If the form is unknown.
        ValueError: If the tasks are others.
    """

    def __init__(self, channels: int, num_classes: Mapping[str, int], form: str = "official"):
        super().__init__()
        check_tasks(num_classes)
        self.with_e = look_up(FORMS, form, "classifier form") == "paper"
        self.start = PaperStart(channels) if self.with_e else OfficialStart(channels)
        self.unroll = nn.LSTM(channels, channels, batch_first=True)
        self.action = nn.Linear(channels, num_classes["action"])
        for task in ("verb", "noun"):
            setattr(self, f"xi_{task}", nn.Linear(channels, channels))
            setattr(self, task, nn.Linear(channels, num_classes[task]))
            setattr(self, f"action_to_{task}", nn.Linear(num_classes["action"], channels))

    def forward(self, y: Tensor, e: Tensor, statt: Tensor, ahead: Sequence[int]) -> Logits:
        """Classify the means (B, T, C) of T steps.

        Args:
            y: Means of y.
            e: Means of e; used in the paper's form only.
            statt: Means of STATT.
            ahead: For each step, how many steps ahead the action starts; at least 1.

        Returns:
            Logits (B, T, classes) by task.

        Raises:
            ValueError: If ``ahead`` is not one positive number a step.
        """
        if len(ahead) != y.shape[1] or min(ahead) < 1:
            raise ValueError(
                f"unrolling {y.shape[1]} steps needs as many positive numbers, got {list(ahead)}"
            )
        source = e + statt if self.with_e else statt
        xi = {task: getattr(self, f"xi_{task}")(source).relu() for task in ("noun", "verb")}
        action = self.action(self._unroll(y, *self.start(xi["noun"], xi["verb"]), ahead))
        logits = {"action": action}
        for task in ("verb", "noun"):
            bias = getattr(self, f"action_to_{task}")(action)
            logits[task] = getattr(self, task)(xi[task] + bias)
        return logits

    def _unroll(self, y: Tensor, hidden: Tensor, memory: Tensor, ahead: Sequence[int]) -> Tensor:
        """Run the LSTM from all steps at once, each as long as it takes; (B, T, C)."""
        batch = y.shape[0]
        rows = y.flatten(0, 1)[:, None].expand(-1, max(ahead), -1)  # (B*T, most, C)
        # Halves of one tensor lie apart, which cuDNN and ONNX's export refuse.
        start = tuple(state.flatten(0, 1)[None].contiguous() for state in (hidden, memory))
        if min(ahead) == max(ahead):  # as in a stream; an exported graph could not sort
            return self.unroll(rows, start)[1][0][0].unflatten(0, (batch, -1))
        # Sorted by length inside, so that each cell runs over what is still under way.
        lengths = torch.tensor([*ahead] * batch)
        packed = pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
        last = self.unroll(packed, start)[1][0][0]
        return last.unflatten(0, (batch, -1))


CLASSIFIERS = {"linear": LinearClassifier, "unrolling": UnrollingClassifier}
