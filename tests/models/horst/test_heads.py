"""The head of anticipation: tasks, views, smoothed labels, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmaction.structures import ActionDataSample
from torch import Tensor

from mmvidformer.models.horst.heads import AnticipationHead
from mmvidformer.models.horst.layer import HorstOutput
from tests.official_horst import from_horst

TASKS = {"verb": 3, "noun": 4, "action": 6}


def build(**options: object) -> AnticipationHead:
    return AnticipationHead(**{"tasks": TASKS, "in_channels": 8, "topk": (1,), **options})


def random_scores(rows: int) -> dict[str, Tensor]:
    """Logits (rows, times, classes) of each task."""
    torch.manual_seed(0)
    return {task: torch.randn(rows, 8, count) for task, count in TASKS.items()}


def labeled() -> list[ActionDataSample]:
    return [ActionDataSample().set_gt_label([2, 3, 5]) for _ in range(2)]


def test_labels_are_verb_noun_and_action_in_any_order_of_the_tasks() -> None:
    losses = [
        build(tasks=dict(tasks)).loss_by_feat(random_scores(2), labeled())
        for tasks in (TASKS.items(), sorted(TASKS.items()))
    ]
    assert losses[0] == losses[1] and losses[0]["loss_verb"] > 0


@pytest.mark.parametrize("average_clips", ["score", "prob", None])
def test_views_of_anticipation_stay_with_their_sample(average_clips: str | None) -> None:
    scores = random_scores(4)
    head = build(average_clips=average_clips)
    samples = head.predict_by_feat(scores, [ActionDataSample() for _ in range(2)])
    for i, sample in enumerate(samples):
        for task, found in sample.pred_score.items():
            views = scores[task][2 * i : 2 * i + 2]
            if average_clips is not None:
                views = (views.softmax(-1) if average_clips == "prob" else views).mean(0)
            torch.testing.assert_close(found, views)


def test_labels_of_anticipation_are_smoothed() -> None:
    scores = random_scores(2)
    losses = build(label_smooth_eps=0.1).loss_by_feat(scores, labeled())
    for task, label in zip(TASKS, (2, 3, 5), strict=True):
        labels = torch.full((2, 8), label)
        flat = scores[task].flatten(0, 1), labels.flatten()
        expected = 8 * F.cross_entropy(*flat, label_smoothing=0.1)
        torch.testing.assert_close(losses[f"loss_{task}"], expected)


@torch.no_grad()
def test_statistics_and_logits_after_training_are_those_of_the_official_classifier() -> None:
    """Its batch norm sees all 14 time steps in training, although the loss has the last 8.

    The file has weights, three batches (N, T, C, h, w, 3), the statistics after a pass of the
    official class on each, and its logits of the first one in evaluation (``meta``: source).
    """
    with np.load(Path(__file__).with_name("official_unrolling_training.npz")) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != "meta"}
    weights = {name.removeprefix("param:"): x for name, x in arrays.items() if "param:" in name}
    tasks = {task: arrays[f"{task}_0"].shape[1] for task in TASKS}
    head = build(tasks=tasks, classifier="unrolling", times=8)
    head.load_state_dict(
        {name.removeprefix("cls_head."): x for name, x in from_horst(weights).state.items()}
    )
    batches = [HorstOutput(*batch.unbind(-1)) for batch in arrays["input"]]
    head.train()
    for batch in batches:
        head(batch)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        found = getattr(head.classifier.start.norm, name)
        torch.testing.assert_close(found, arrays[f"after:c_a.fuse_ev.1.{name}"])
    for task, logits in head.eval()(batches[0]).items():
        expected = torch.stack([arrays[f"{task}_{t}"] for t in range(6, 14)], dim=1)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-4)


def features(steps: int) -> HorstOutput:
    x: Tensor = torch.randn(2, steps, 8, 2, 2)
    return HorstOutput(x, x, x)


def test_wrong_clips_and_labels_of_anticipation() -> None:
    head = build()
    with pytest.raises(ValueError, match="at most 14 time steps, got 15"):
        head(features(15))
    with pytest.raises(ValueError, match=r"must all be 14, got \[14, 3\]"):
        head(features(14), torch.tensor([14, 3]))
    with pytest.raises(ValueError, match=r"verb.*got \(1, 1\)"):
        sample = ActionDataSample()
        sample.set_gt_label(1)
        head.loss_by_feat({task: torch.zeros(1, 8, n) for task, n in TASKS.items()}, [sample])
    with pytest.raises(KeyError, match="no anticipation classifier named 'mlp'"):
        build(classifier="mlp")
