import numpy as np
import pytest
import torch

from mmvidformer.tasks.multi_task import AnticipationMetric, MultiTaskAccuracy
from mmvidformer.tasks.score_files import SaveScores


def evaluate(scores: dict, labels: torch.Tensor, **kwargs) -> dict[str, float]:
    metric = MultiTaskAccuracy(**kwargs)
    samples = [
        {"pred_score": {name: s[i] for name, s in scores.items()}, "gt_label": labels[i]}
        for i in range(len(labels))
    ]
    metric.process(None, samples[:7])
    metric.process(None, samples[7:])
    return metric.evaluate(len(labels))


def test_against_a_direct_evaluation_of_all_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    noun, verb = (torch.randn(60, n, generator=generator) for n in (7, 5))
    labels = torch.stack([torch.randint(0, n, (60,), generator=generator) for n in (7, 5)], dim=1)
    found = evaluate({"noun": noun, "verb": verb}, labels)

    pairs = (noun.softmax(1)[:, :, None] * verb.softmax(1)[:, None]).flatten(1).numpy()
    pair = (labels[:, 0] * 5 + labels[:, 1]).numpy()
    order = np.argsort(-pairs, axis=1)
    assert found["action/top1"] == pytest.approx((order[:, 0] == pair).mean())
    assert found["action/top5"] == pytest.approx((order[:, :5] == pair[:, None]).any(1).mean())
    both = (noun.argmax(1) == labels[:, 0]) & (verb.argmax(1) == labels[:, 1])
    assert found["action/top1"] == pytest.approx(both.float().mean().item())

    right = (verb.argmax(1) == labels[:, 1]).float()
    assert found["verb/top1"] == pytest.approx(right.mean().item())
    classes = [right[labels[:, 1] == c].mean().item() for c in range(5)]
    assert found["verb/mean_class"] == pytest.approx(sum(classes) / 5)
    assert found["verb/top5"] == 1.0


def test_probabilities_get_no_softmax() -> None:
    # The right pair (0, 0) against (1, 1): the sum of logits is smaller, the product larger.
    scores = {"noun": torch.tensor([[0.2, 0.8]]), "verb": torch.tensor([[0.5, 0.05, 0.45]])}
    labels = torch.tensor([[0, 0]])
    as_probabilities, as_logits = (
        evaluate({task: s + c for task, s in scores.items()}, labels, topk=(3,))["action/top3"]
        for c in (0, 1)
    )
    assert (as_logits, as_probabilities) == (0.0, 1.0)


def test_an_untrained_zero_head_is_at_chance() -> None:
    labels = torch.cartesian_prod(torch.arange(4), torch.arange(5))
    found = evaluate({"noun": torch.zeros(20, 4), "verb": torch.zeros(20, 5)}, labels, topk=(1, 2))
    expected = {"noun": (1 / 4, 2 / 4), "verb": (1 / 5, 2 / 5), "action": (1 / 20, 2 / 20)}
    for name, (first, second) in expected.items():
        assert found[f"{name}/top1"] == pytest.approx(first)
        assert found[f"{name}/top2"] == pytest.approx(second)


def test_a_diverged_model_is_never_right() -> None:
    noun, verb = torch.zeros(2, 4), torch.zeros(2, 3)
    noun[:, 2] = float("nan")
    found = evaluate({"noun": noun, "verb": verb}, torch.tensor([[0, 0], [2, 0]]))
    assert found["noun/top1"] == found["noun/top5"] == found["noun/mean_class"] == 0
    assert found["action/top1"] == found["action/top5"] == 0
    assert found["verb/top1"] == 1.0


def test_products_do_not_underflow() -> None:
    # In single precision the right pair (1, 2), e^-150, and the earlier (1, 1), e^-155, are both 0.
    scores = {"noun": torch.tensor([[0.0, -80.0]]), "verb": torch.tensor([[0.0, -75.0, -70.0]])}
    found = evaluate(scores, torch.tensor([[1, 2]]), topk=(4, 5))
    assert (found["action/top4"], found["action/top5"]) == (0.0, 1.0)


def test_scores_of_several_views_are_rejected() -> None:
    scores = {"noun": torch.zeros(1, 2, 7), "verb": torch.zeros(1, 2, 5)}
    with pytest.raises(ValueError, match="average_clips=None"):
        evaluate(scores, torch.tensor([[0, 0]]))


@pytest.mark.parametrize(
    "build",
    [MultiTaskAccuracy, AnticipationMetric, lambda: SaveScores("a.npz")],
)
def test_no_warning_about_a_missing_prefix(build, monkeypatch) -> None:
    lines = []
    monkeypatch.setattr("mmengine.evaluator.metric.print_log", lambda text, **_: lines.append(text))
    assert build().prefix == ""
    assert lines == []
