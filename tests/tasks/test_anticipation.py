from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.tasks.multi_task import AnticipationMetric, mean_topk_recall

TASKS = ("verb", "noun", "action")
COUNTS = {"verb": 7, "noun": 12, "action": 30}
TIMES = 3
PAIRS = [(i % 7, (5 * i) % 12) for i in range(30)]


@pytest.fixture(scope="module")
def samples() -> list[dict]:
    """80 samples of a few actions, so that many classes have none; scores are slightly informed."""
    rng = np.random.default_rng(0)
    samples = []
    for i in range(80):
        action = int(rng.integers(0, 8))
        label = [*PAIRS[action], action]
        scores = {task: rng.normal(size=(TIMES, n)) for task, n in COUNTS.items()}
        for task, number in zip(TASKS, label, strict=True):
            scores[task][:, number] += np.linspace(0, 2, TIMES)
        samples.append(
            {
                "pred_score": {task: torch.from_numpy(s) for task, s in scores.items()},
                "gt_label": torch.tensor(label),
                "narration_id": f"P0{i % 4}_01_{i}",
            }
        )
    return samples


SKIPPED = [
    {"narration_id": "P01_02_0", "gt_label": np.array([*PAIRS[3], 3])},
    {
        "narration_id": "P03_02_0",
        "gt_label": np.array([*PAIRS[29], 29]),
    },  # no other sample has its class
]


def evaluate(samples: list[dict], **kwargs) -> dict[str, float]:
    metric = AnticipationMetric(**kwargs)
    metric.dataset_meta = {"actions": PAIRS, "discarded": SKIPPED}
    metric.process(None, samples[:33])
    metric.process(None, samples[33:])
    return metric.evaluate(len(samples))


def hits(samples: list[dict], task: str, time: int, k: int) -> list[tuple[int, bool, str]]:
    """Label, whether it is among the top k, and id of each sample, by sorting the scores."""
    found = []
    for sample in samples:
        label = int(sample["gt_label"][TASKS.index(task)])
        order = np.argsort(-sample["pred_score"][task][time].numpy())
        found.append((label, label in order[:k], sample["narration_id"]))
    return found


def recall(found: list[tuple[int, bool, str]], classes: set[int] | None = None) -> float:
    shares = []
    for c in {label for label, _, _ in found}:
        if classes is None or c in classes:
            own = [hit for label, hit, _ in found if label == c]
            shares.append(sum(own) / len(own))
    return sum(shares) / len(shares)


def wrong(task: str) -> list[tuple[int, bool, str]]:
    return [(int(s["gt_label"][TASKS.index(task)]), False, s["narration_id"]) for s in SKIPPED]


@pytest.mark.parametrize("task", TASKS)
def test_all_classes_and_skipped_segments_against_brute_force(
    samples: list[dict], task: str, tmp_path: Path
) -> None:
    tails = {"verb": {2, 3, 6}, "noun": {1}}
    tails["action"] = {
        i for i, (v, n) in enumerate(PAIRS) if v in tails["verb"] or n in tails["noun"]
    }

    def write(name: str, ids: Iterable[str]) -> str:
        (tmp_path / f"{name}.csv").write_text("".join(f"{i}\n" for i in ids))
        return str(tmp_path / f"{name}.csv")

    labels = {s["narration_id"]: s["gt_label"].tolist() for s in (*samples, *SKIPPED)}
    tail = {
        one: write(one, [i for i, label in labels.items() if label[place] in tails[one]])
        for place, one in enumerate(TASKS)
    }
    unseen = write("unseen", [i for i in labels if i.startswith("P03")])
    subsets = {"unseen": unseen, "tail": tail}
    found = evaluate(samples, subsets=subsets, discarded="wrong")
    dropped = evaluate(samples)
    for time in range(TIMES):
        at = f"{(TIMES - time) * 0.25:.2f}s"
        for k in (1, 5):
            kept = hits(samples, task, time, k)
            everything = kept + wrong(task)
            share = sum(hit for _, hit, _ in kept)
            assert dropped[f"{task}/top{k}_{at}"] == pytest.approx(share / 80)
            assert found[f"{task}/top{k}_{at}"] == pytest.approx(share / 82)
        assert dropped[f"{task}/recall5_{at}"] == pytest.approx(recall(kept))
        assert found[f"{task}/recall5_{at}"] == pytest.approx(recall(everything))
        unseen = [hit for hit in everything if hit[2].startswith("P03")]
        assert found[f"{task}/recall5_unseen_{at}"] == pytest.approx(recall(unseen))
        assert found[f"{task}/recall5_tail_{at}"] == pytest.approx(recall(everything, tails[task]))
        assert 0 < dropped[f"{task}/top1_{at}"] < dropped[f"{task}/top5_{at}"] <= 1
    assert found[f"{task}/recall5_0.25s"] != dropped[f"{task}/recall5_0.25s"]


def test_many_shot_classes_against_brute_force(samples: list[dict], tmp_path: Path) -> None:
    (tmp_path / "verbs.csv").write_text("verb_class,verb\n1,put\n3,wash\n5,open\n")
    many = {"verb": str(tmp_path / "verbs.csv"), "noun": [0, 1, 2]}
    found = evaluate(samples, many_shot=many)
    plain = evaluate(samples)
    classes = {"verb": {1, 3, 5}, "noun": {0, 1, 2}}
    classes["action"] = {
        i for i, (v, n) in enumerate(PAIRS) if v in classes["verb"] or n in classes["noun"]
    }
    for task in TASKS:
        expected = recall(hits(samples, task, 0, 5), classes[task])
        assert found[f"{task}/recall5_0.75s"] == pytest.approx(expected)
        assert found[f"{task}/recall5_0.75s"] != plain[f"{task}/recall5_0.75s"]
        assert found[f"{task}/top5_0.75s"] == plain[f"{task}/top5_0.75s"]
    assert all(noun != 2 for _, noun in PAIRS[:8])  # a many-shot class without samples


def test_subset_from_a_list_of_narrations(samples: list[dict], tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_text("P00_01_0\nP01_01_1\nP02_01_2\n")
    found = evaluate(samples, subsets={"few": str(tmp_path / "ids.csv")})
    expected = recall(hits(samples[:3], "noun", 2, 5))
    assert found["noun/recall5_few_0.25s"] == pytest.approx(expected)


def test_recall_of_given_ranks() -> None:
    ranks, labels = np.array([0, 4, 5, 9, 0]), np.array([1, 1, 1, 2, 4])
    assert mean_topk_recall(ranks, labels, k=5) == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert mean_topk_recall(ranks, labels, k=5, classes=[1, 3]) == pytest.approx(2 / 3)
    assert mean_topk_recall(ranks, labels, k=1) == pytest.approx((1 / 3 + 0 + 1) / 3)
    with pytest.raises(ValueError, match="no class"):
        mean_topk_recall(ranks, labels, k=5, classes=[3])


def test_what_has_no_sample_is_left_out(samples: list[dict], tmp_path: Path) -> None:
    """A run goes on after such a validation."""
    (tmp_path / "ids.csv").write_text("P99_01_0\n")
    plain = evaluate(samples)
    assert evaluate(samples, subsets={"far": str(tmp_path / "ids.csv")}) == plain
    found = evaluate(samples, many_shot={"verb": [0], "noun": [99]})
    assert {*plain} - {*found} == {f"noun/recall5_{time}s" for time in ("0.75", "0.50", "0.25")}


def test_invalid_columns_of_many_shot_classes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("noun_class,noun\n1,pan\n")
    with pytest.raises(ValueError, match=r"a\.csv, line 1 has no column verb_class"):
        AnticipationMetric(many_shot={"verb": str(tmp_path / "a.csv"), "noun": [1]})


def test_invalid_samples(samples: list[dict]) -> None:
    scores = dict(samples[0]["pred_score"])
    for wrong_scores in (
        {**scores, "verb": scores["verb"][0]},
        {**scores, "verb": scores["verb"][:2]},
    ):
        with pytest.raises((IndexError, ValueError)):
            evaluate([{**samples[0], "pred_score": wrong_scores}])


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="must be 'drop' or 'wrong', got 'zeros'"):
        AnticipationMetric(discarded="zeros")
