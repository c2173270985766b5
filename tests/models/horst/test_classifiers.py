"""Both forms of the classifiers by hand, and how far each time step is unrolled."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.models.horst.classifiers import LinearClassifier, UnrollingClassifier

TASKS = {"action": 7, "verb": 3, "noun": 5}
B, T, C = 3, 4, 6


def case(cls: type[nn.Module], form: str) -> tuple[nn.Module, list[Tensor]]:
    torch.manual_seed(0)
    return cls(C, TASKS, form).eval(), list(torch.randn(3, B, T, C).unbind(0))


@pytest.mark.parametrize("form", ["official", "paper"])
def test_linear(form: str) -> None:
    model, (y, e, statt) = case(LinearClassifier, form)
    logits = model(y, e, statt, [1] * T)
    action = model.action(torch.cat([y, e, statt], -1))
    torch.testing.assert_close(logits["action"], action)
    for task, chi in (("verb", statt), ("noun", e)):
        bias = getattr(model, f"action_to_{task}")(action)
        classify = getattr(model, task)
        expected = classify(chi) + bias if form == "official" else classify(chi + bias)
        torch.testing.assert_close(logits[task], expected)
        assert logits[task].shape == (B, T, TASKS[task])


@pytest.mark.parametrize("form", ["official", "paper"])
def test_each_time_step_is_unrolled_up_to_the_action(form: str) -> None:
    model, (y, e, statt) = case(UnrollingClassifier, form)
    ahead = [3, 1, 4, 2]  # in any order
    logits = model(y, e, statt, ahead)
    source = statt if form == "official" else e + statt
    noun, verb = model.xi_noun(source).relu(), model.xi_verb(source).relu()
    hidden, memory = model.start(noun, verb)
    cell = nn.LSTMCell(C, C)
    cell.load_state_dict(
        {name.removesuffix("_l0"): value for name, value in model.unroll.state_dict().items()}
    )
    for t, count in enumerate(ahead):
        state = hidden[:, t], memory[:, t]
        for _ in range(count):
            state = cell(y[:, t], state)
        action = model.action(state[0])
        torch.testing.assert_close(logits["action"][:, t], action)
        expected = model.verb(verb[:, t] + model.action_to_verb(action))
        torch.testing.assert_close(logits["verb"][:, t], expected)
        expected = model.noun(noun[:, t] + model.action_to_noun(action))
        torch.testing.assert_close(logits["noun"][:, t], expected)


def test_official_norm_uses_the_statistics_of_one_time_step() -> None:
    model, (y, e, statt) = case(UnrollingClassifier, "official")
    start = model.train().start
    noun, verb = torch.randn(2, B, T, C).unbind(0)
    hidden, memory = start(noun, verb)
    for t in range(T):
        both = start.fc(torch.cat([noun[:, t], verb[:, t]], -1))
        expected = F.batch_norm(both, None, None, start.norm.weight, start.norm.bias, True)
        torch.testing.assert_close(torch.cat([hidden[:, t], memory[:, t]], -1), expected)


def test_initial_state_of_the_paper() -> None:
    model, _ = case(UnrollingClassifier, "paper")
    noun, verb = torch.randn(2, B, T, C).unbind(0)
    feature = model.start.feature(torch.cat([verb, noun], -1)).relu()
    hidden, memory = model.start(noun, verb)
    torch.testing.assert_close(hidden, model.start.hidden(feature))
    torch.testing.assert_close(memory, model.start.memory(feature))


@pytest.mark.parametrize("cls", [LinearClassifier, UnrollingClassifier])
@pytest.mark.parametrize("form", ["official", "paper"])
def test_every_parameter_has_a_gradient(cls: type[nn.Module], form: str) -> None:
    model, means = case(cls, form)
    sum(x.sum() for x in model.train()(*means, [4, 3, 2, 1]).values()).backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]


@pytest.mark.parametrize("cls", [LinearClassifier, UnrollingClassifier])
def test_wrong_arguments(cls: type[nn.Module]) -> None:
    with pytest.raises(KeyError, match="no classifier form named 'code'"):
        cls(C, TASKS, "code")
    with pytest.raises(ValueError, match="tasks must be"):
        cls(C, {"verb": 3, "noun": 5})


@pytest.mark.parametrize("ahead", [[1, 2, 3], [0, 1, 2, 3]])
def test_unrolling_needs_one_positive_number_per_time_step(ahead: list[int]) -> None:
    model, means = case(UnrollingClassifier, "paper")
    with pytest.raises(RuntimeError, match=r"[Ll]ength|size of tensor"):
        model(*means, ahead)
