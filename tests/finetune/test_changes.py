"""The changes of tokens, and ridge regression on them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from mmvidformer.finetune import ridge
from mmvidformer.finetune.ridge import fit_changes
from mmvidformer.layers.changes import (
    count_changes,
    measure_changes,
    mirror_changes,
    split_changes,
)

WIDTH = 3


class Head(nn.Module):
    """What ``fit_changes`` reads of a head."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.in_channels, self.num_classes = WIDTH, num_classes
        self.fc_cls = nn.Linear(count_changes(WIDTH), num_classes)


def test_parts_of_time_and_places() -> None:
    """A place of an 8 x 8 grid that changes once, between the fourth and the fifth moment."""
    tokens = torch.zeros(1, 16, 16, 16, WIDTH)
    tokens[:, 4:, 2:4, 6:8, 1] = -2.0  # as every pixel of a place of 2 x 2 tokens
    blocks = split_changes(measure_changes(tokens), WIDTH)
    fine = torch.zeros(3, 8, 8, WIDTH)
    fine[0, 1, 3, 1] = 2 / 5  # one of five differences of the first third
    torch.testing.assert_close(blocks["fine"][0], fine)
    assert blocks["coarse"][0, 0, 0, 1, 1] == pytest.approx(2 / 5 / 4)
    assert blocks["amount"][0, 1, 1, 3, 0] == pytest.approx(2 / 3 / 3)  # one of three; channels
    assert int((blocks["amount"] != 0).sum()) == int((blocks["coarse"] != 0).sum()) == 1


@pytest.mark.parametrize("size", [(2, 2, 2), (16, 14, 14), (5, 7, 3)])
def test_mirrored_tokens_have_mirrored_changes(size) -> None:
    tokens = torch.randn(2, *size, WIDTH)
    changes = measure_changes(tokens)
    assert changes.shape == (2, count_changes(WIDTH))
    mirrored = measure_changes(tokens.flip(3))
    torch.testing.assert_close(mirror_changes(changes, WIDTH), mirrored)


def test_one_moment_has_no_changes() -> None:
    with pytest.raises(ValueError, match="changes need two moments or more"):
        measure_changes(torch.zeros(1, 1, 4, 4, WIDTH))


def draw_videos(count: int) -> tuple[Tensor, Tensor]:
    """Tokens that change in the first or the last half of the time."""
    torch.manual_seed(0)
    labels = torch.arange(count) % 2
    tokens = torch.randn(count, 8, 4, 4, WIDTH) * 0.1
    for row, label in enumerate(labels.tolist()):
        tokens[row, 4 * label : 4 * label + 4] += torch.randn(4, 4, 4, WIDTH)
    return measure_changes(tokens), labels


def test_order_in_time_is_learned() -> None:
    changes, labels = draw_videos(48)
    head = Head(3)  # a class has no video
    said = fit_changes(head, changes[:32], labels[:32], mirror=True)
    assert said.startswith("inverse L2 penalty ")
    scores = head.fc_cls(changes[32:])
    assert (scores.argmax(1) == labels[32:]).all()
    torch.testing.assert_close(head.fc_cls(mirror_changes(changes, WIDTH)), head.fc_cls(changes))


def test_weights_are_those_of_scikit_learn(monkeypatch) -> None:
    """On values that are standardized, and weighted by block, with an intercept."""
    monkeypatch.setattr(ridge, "PENALTIES", (10.0,))
    monkeypatch.setattr(ridge, "SCALES", np.array([1.0]))
    changes, labels = draw_videos(20)
    changes = changes.double()
    head = Head(2).double()
    fit_changes(head, changes, labels, mirror=False)
    columns = []
    for block in split_changes(changes, WIDTH).values():
        values = block.flatten(1).numpy()
        deviations = values.std(0)
        values = (values - values.mean(0)) / deviations.clip(0.1 * np.median(deviations))
        columns.append(values / np.sqrt((values**2).sum(1).mean()))
    rows = np.concatenate(columns, axis=1)
    wanted = Ridge(alpha=0.1).fit(rows, np.eye(2)[labels.numpy()]).predict(rows)
    scores = head.fc_cls(changes).detach().numpy()
    np.testing.assert_allclose(scores, wanted, atol=1e-6)


def test_a_class_of_one_video_leaves_nothing_to_choose_by() -> None:
    changes, labels = draw_videos(3)
    assert fit_changes(Head(2), changes, labels, mirror=True) == "inverse L2 penalty 10"


def test_too_many_videos(monkeypatch) -> None:
    monkeypatch.setattr(ridge, "MOST", 4)
    changes, labels = draw_videos(5)
    with pytest.raises(ValueError, match="temporal is for 4 training videos at most, got 5"):
        fit_changes(Head(2), changes, labels, mirror=True)
