"""The changes of tokens, and ridge regression on them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from mmvidformer.finetune import ridge
from mmvidformer.finetune.ridge import fit_changes
from mmvidformer.layers.changes import (
    PARTS,
    SHARES,
    count_changes,
    group_changes,
    measure_changes,
    mirror_changes,
    split_changes,
)

WIDTH = 3


class Head(nn.Module):
    """What ``fit_changes`` reads of a head."""

    def __init__(self, num_classes: int, layers: int = 1) -> None:
        super().__init__()
        self.width, self.layers, self.num_classes = WIDTH, layers, num_classes
        self.fc_cls = nn.Linear(count_changes(WIDTH, layers), num_classes)


def test_parts_of_time_and_places() -> None:
    """A place of an 8 x 8 grid that changes once, between the fourth and the fifth moment."""
    tokens = torch.zeros(1, 16, 16, 16, WIDTH)
    tokens[:, 4:, 2:4, 6:8, 1] = -2.0  # as every pixel of a place of 2 x 2 tokens
    blocks = split_changes(measure_changes(tokens), WIDTH)
    fine = torch.zeros(3, 8, 8, WIDTH)
    fine[0, 1, 3, 1] = 2 / 5  # one of five differences of the first third
    torch.testing.assert_close(blocks["fine"][0], fine)
    coarse, amount = blocks["coarse"][0, 0, 0, 1, 1], blocks["amount"][0, 1, 1, 3, 0]
    torch.testing.assert_close(coarse, torch.tensor(2 / 5 / 4))
    torch.testing.assert_close(amount, torch.tensor(2 / 3 / 3))  # one of three; channels
    assert int((blocks["amount"] != 0).sum()) == int((blocks["coarse"] != 0).sum()) == 1


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("size", [(2, 2, 2), (16, 14, 14), (5, 7, 3)])
def test_mirrored_tokens_have_mirrored_changes(size, layers) -> None:
    tokens = torch.randn(2, *size, layers * WIDTH)
    changes = measure_changes(tokens, layers)
    assert changes.shape == (2, count_changes(WIDTH, layers))
    mirrored = measure_changes(tokens.flip(3), layers)
    torch.testing.assert_close(mirror_changes(changes, WIDTH, layers), mirrored)


def test_changes_anywhere_do_not_depend_on_the_place() -> None:
    tokens = torch.randn(2, 6, 8, 8, WIDTH)
    moved = tokens.roll((3, 2), (2, 3))
    blocks, of_moved = (split_changes(measure_changes(x), WIDTH) for x in (tokens, moved))
    for name in group_changes(1)["layer 0"]:
        torch.testing.assert_close(blocks[name], of_moved[name])
    assert not torch.allclose(blocks["coarse"], of_moved["coarse"])


def test_what_changes_anywhere() -> None:
    """One place of 64 that is 4 at the fourth of 11 moments, and 0 otherwise."""
    tokens = torch.zeros(1, 11, 8, 8, WIDTH)
    tokens[:, 3, 2, 5, 1] = 4.0
    blocks = split_changes(measure_changes(tokens), WIDTH)
    differences, turns = 10 * 64, 9 * 64
    counts = [round(share * differences) for share in SHARES]
    largest = blocks["largest 0"].unflatten(1, (len(SHARES), WIDTH))
    torch.testing.assert_close(largest[0, :, 1], torch.tensor([8 / count for count in counts]))
    assert not largest[..., [0, 2]].any()
    second = blocks["turns 0"].unflatten(1, (len(SHARES), WIDTH))
    counts = [round(share * turns) for share in SHARES]  # of 4, 8 and 4
    torch.testing.assert_close(second[0, :, 1], torch.tensor([16 / count for count in counts]))
    lengths = blocks["sorted 0"].unflatten(1, (8 * 8, PARTS))
    torch.testing.assert_close(lengths[0, 0], torch.tensor([0.0, 0, 0, 0, 4]))
    assert not lengths[0, 1:].any()
    moving = blocks["moving 0"].unflatten(1, (2, WIDTH))[0, :, 1]  # of the place, and how much
    torch.testing.assert_close(moving, torch.tensor([2.0, 4]))


def test_gradients_are_finite_where_nothing_changes() -> None:
    tokens = torch.zeros(1, 4, 8, 8, WIDTH)
    tokens[:, 2:, 3, 3] = 1.0
    tokens.requires_grad_()
    measure_changes(tokens).sum().backward()
    assert tokens.grad.isfinite().all() and tokens.grad.any()


def test_each_layer_has_its_changes() -> None:
    layers = torch.randn(2, 3, 6, 8, 8, WIDTH)
    changes = measure_changes(torch.cat([*layers], dim=-1), 2)
    joined = split_changes(changes, WIDTH, 2)
    for number, layer in enumerate(layers):
        alone = split_changes(measure_changes(layer), WIDTH)
        for name in group_changes(1)["layer 0"]:
            there = joined[name.replace("0", str(number))]
            torch.testing.assert_close(there, alone[name])
    torch.testing.assert_close(joined["fine"], alone["fine"])  # of the last layer


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
    assert said.startswith("places, inverse L2 penalty ")
    scores = head.fc_cls(changes[32:])
    assert (scores.argmax(1) == labels[32:]).all()
    torch.testing.assert_close(head.fc_cls(mirror_changes(changes, WIDTH)), head.fc_cls(changes))


def test_what_happens_anywhere_is_read_of_one_layer() -> None:
    """One place, anywhere, changes more in one class; in the first of two layers alone."""
    torch.manual_seed(1)
    labels = torch.arange(60) % 2
    tokens = torch.randn(60, 8, 8, 8, 2 * WIDTH)
    for row, label in enumerate(labels.tolist()):
        y, x = torch.randint(8, (2,)).tolist()
        tokens[row, :, y, x, :WIDTH] *= 1 + label
    changes = measure_changes(tokens, 2)
    head = Head(2, layers=2)
    said = fit_changes(head, changes[:40], labels[:40], mirror=True)
    assert said.startswith("layer 0, ")
    assert (head.fc_cls(changes[40:]).argmax(1) == labels[40:]).sum() >= 16
    weights = split_changes(head.fc_cls.weight.data, WIDTH, 2)
    read = {name for name, weight in weights.items() if weight.any()}
    assert read == {*group_changes(2)["layer 0"]}


def test_alike_videos_are_held_out_together() -> None:
    labels = np.arange(24) % 2
    people = [row // 4 for row in range(24)]
    splits = ridge._draw_splits(labels, people)
    assert len(splits) == 6
    for train, test in splits:
        assert not {people[row] for row in train} & {people[row] for row in test}


def test_weights_are_those_of_scikit_learn(monkeypatch) -> None:
    """On values that are standardized, and weighted by block and group, with an intercept."""
    monkeypatch.setattr(ridge, "PENALTIES", (10.0,))
    monkeypatch.setattr(ridge, "_draw_splits", lambda labels, alike: [])  # all groups are read
    monkeypatch.setattr(ridge, "SCALES", np.array([1.0]))
    changes, labels = draw_videos(20)
    changes = changes.double()
    head = Head(2).double()
    fit_changes(head, changes, labels, mirror=False)
    columns = []
    blocks = split_changes(changes, WIDTH)
    for names in group_changes(1).values():
        for name in names:
            values = blocks[name].flatten(1).numpy()
            deviations = values.std(0)
            values = (values - values.mean(0)) / deviations.clip(0.1 * np.median(deviations))
            energy = (values**2).sum(1).mean()
            columns.append(values / np.sqrt(energy * len(names) * 2))  # of two groups
    rows = np.concatenate(columns, axis=1)
    wanted = Ridge(alpha=0.1).fit(rows, np.eye(2)[labels.numpy()]).predict(rows)
    scores = head.fc_cls(changes).detach().numpy()
    np.testing.assert_allclose(scores, wanted, atol=1e-6)


def test_a_class_of_one_video_leaves_nothing_to_choose_by() -> None:
    changes, labels = draw_videos(3)
    said = fit_changes(Head(2), changes, labels, mirror=True)
    assert said == "places + layer 0, inverse L2 penalty 10"


def test_too_many_videos(monkeypatch) -> None:
    monkeypatch.setattr(ridge, "MOST", 4)
    changes, labels = draw_videos(5)
    with pytest.raises(ValueError, match="temporal is for 4 training videos at most, got 5"):
        fit_changes(Head(2), changes, labels, mirror=True)
