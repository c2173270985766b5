import pytest
import torch
from mmaction.structures import ActionDataSample

from mmvidformer.registry import MODELS


def mix(num_classes: object, labels: list, alpha: float = 0.5) -> tuple:
    torch.manual_seed(3)
    mixing = MODELS.build({"type": "ReversedMixup", "num_classes": num_classes, "alpha": alpha})
    clips = torch.arange(float(len(labels))).view(-1, 1, 1, 1, 1, 1).expand(-1, 1, 3, 2, 2, 2)
    return mixing(clips, [ActionDataSample().set_gt_label(label) for label in labels])


def test_batch_is_mixed_in_reverse_order_with_one_weight() -> None:
    clips, samples = mix(4, [0, 1, 2, 3])
    weight = samples[0].gt_label[0].item()
    assert 0 < weight < 1
    expected = [3 * (1 - weight), 1 * weight + 2 * (1 - weight),
                2 * weight + 1 * (1 - weight), 3 * weight]  # fmt: skip
    assert clips[:, 0, 0, 0, 0, 0].tolist() == pytest.approx(expected)
    assert samples[1].gt_label.tolist() == pytest.approx([0, weight, 1 - weight, 0])


def test_labels_of_all_tasks_are_mixed_with_the_same_weight() -> None:
    _, (first, second) = mix({"noun": 3, "verb": 2}, [[0, 1], [2, 0]])
    weight = first.gt_label[0].item()
    assert first.gt_label.tolist() == pytest.approx([weight, 0, 1 - weight, 1 - weight, weight])
    assert second.gt_label.tolist() == pytest.approx([1 - weight, 0, weight, weight, 1 - weight])


def test_weight_has_the_beta_distribution() -> None:
    torch.manual_seed(0)
    mixing = MODELS.build({"type": "ReversedMixup", "num_classes": 2, "alpha": 0.3})
    one, label = torch.tensor([[1.0], [0.0]]), torch.eye(2)
    weights = torch.tensor([mixing.do_blending(one, label)[0][0, 0] for _ in range(4000)])
    assert weights.mean().item() == pytest.approx(0.5, abs=0.03)
    assert weights.var().item() == pytest.approx(1 / (4 * (2 * 0.3 + 1)), abs=0.01)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="alpha.*0"):
        MODELS.build({"type": "ReversedMixup", "num_classes": 2, "alpha": 0})
    with pytest.raises(ValueError, match=r"2 tasks.*\(1, 1\)"):
        mix({"noun": 3, "verb": 2}, [1])
