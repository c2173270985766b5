from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.tasks.score_files import SaveScores


def sample(name: str, seed: int) -> dict:
    generator = torch.Generator().manual_seed(seed)
    counts = {"verb": 12, "noun": 10, "action": 120}
    scores = {task: torch.randn(8, n, generator=generator) for task, n in counts.items()}
    return {"narration_id": name, "pred_score": scores}


def test_scores_of_each_task_are_saved(tmp_path: Path) -> None:
    samples = [sample(str(i), seed=i) | {"gt_label": torch.tensor([i, 3])} for i in range(2)]
    metric = SaveScores(str(tmp_path / "a"))
    metric.process(None, samples)
    metric.evaluate(2)
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["labels"].tolist() == [[0, 3], [1, 3]]
        for task in ("verb", "noun", "action"):
            scores = torch.stack([given["pred_score"][task] for given in samples])
            np.testing.assert_array_equal(arrays[f"scores_{task}"], scores)


@pytest.mark.parametrize("found", [dict(pred_instances={}), dict(pred_score=None, step=1.0)])
def test_models_of_parts_have_no_row_for_a_video(tmp_path: Path, found: dict) -> None:
    with pytest.raises(ValueError, match="a row of scores for each video, but the model has none"):
        SaveScores(str(tmp_path / "a")).process(None, [found])


def test_runs_of_classes_over_time_are_saved(tmp_path: Path) -> None:
    # Five frames at 2 a second, two in a step; the last step is cut. True: 0, 0, 0, 1, none.
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    video = dict(total_frames=5, avg_fps=2.0, step=2.0, background=-1, video_path="a.mp4")
    video["spans"] = np.array([[0, 1.5, 0], [1.5, 2, 1]])
    kept = {name: video[name] for name in ("spans", "background")}
    bad = kept | dict(bad_video=True, video_path="b.mp4")
    metric = SaveScores(str(tmp_path / "a"))
    for answer in (bad | dict(pred_score=scores[:0]), video | dict(pred_score=scores)):
        metric.process(None, [answer])
    metric.evaluate(2)
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["videos"].tolist() == ["b.mp4", "a.mp4"]
        wanted = [[1, 0, 1, 0, 0, 0.9], [1, 1, 1.5, 1, 0, 0.8], [1, 1.5, 2, 1, 1, 0.8]]
        wanted.append([1, 2, 2.5, 1, -1, 0.6])
        np.testing.assert_allclose(arrays["runs"], wanted, rtol=1e-6)


def test_boxes_have_the_classes_of_the_true_one_they_overlap(tmp_path: Path) -> None:
    """A wide true box, one that is missed, and a found one that is none; of frames 10 x 20."""
    true = dict(bboxes=torch.tensor([[0.0, 0, 20, 5], [0, 5, 5, 10]]))
    true["labels"] = torch.tensor([[0.0, 1, 1], [0, 0, 1]])  # after a column, as AVADataset
    found = dict(bboxes=torch.tensor([[0.1, 0, 1, 0.5], [0.5, 0.5, 1, 1]]))
    found["scores"] = torch.tensor([[0, 0.9, 0.2], [0, 0.6, 0.7]])
    video = dict(timestamp=1.5, img_shape=(10, 20), video_path="a.mp4")
    none = {name: values[:0] for name, values in found.items()}
    bad = dict(bad_video=True, timestamp=2, video_path="b.mp4", pred_instances=none)
    metric = SaveScores(str(tmp_path / "a"), activation="sigmoid")
    for answer in (bad, dict(**video, gt_instances=true, pred_instances=found)):
        metric.process(None, [answer])
    empty = dict(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, 3))
    metric.process(None, [dict(**video, gt_instances=empty, pred_instances=found)])
    metric.evaluate(3)
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["videos"].tolist() == ["b.mp4", "a.mp4", "a.mp4"]
        assert arrays["bad_videos"].tolist() == [True, False, False]
        assert arrays["activation"] == "sigmoid"
        first, second = [0.1, 0, 1, 0.5, 0.9, 0.2], [0.5, 0.5, 1, 1, 0.6, 0.7]
        wanted = [
            [1, 1.5, *first, 1, 1],
            [1, 1.5, *second, 0, 0],
            [1, 1.5, 0, 0.5, 0.25, 1, 0, 0, 0, 1],
            [2, 1.5, *first, 0, 0],
            [2, 1.5, *second, 0, 0],
        ]
        np.testing.assert_allclose(arrays["boxes"], wanted, rtol=1e-6)
