import pytest
import torch

from mmvidformer.registry import METRICS


def test_scores_of_a_video_are_the_mean_over_its_clips() -> None:
    """An item counts by its number of clips."""
    items = [
        (0, 1, [0.0, 1.0], 0),
        (0, 3, [0.6, 0.4], 0),
        (7, 2, [0.1, 0.9], 1),
        (9, 1, [0.8, 0.2], 1),
    ]
    samples = [
        {
            "video_id": video,
            "num_clips": clips,
            "pred_score": torch.tensor(scores),
            "gt_label": torch.tensor([label]),
        }
        for video, clips, scores, label in items
    ]
    metric = METRICS.build(
        {"type": "VideoAccuracy", "metric_options": {"top_k_accuracy": {"topk": (1,)}}}
    )
    metric.process([], samples[:3])
    metric.process([], samples[3:])
    fused = metric.compute_metrics(metric.results)
    # Video 0: (0 + 3 * .6) / 4 = .45 against .55, so wrong; 7 right; 9 wrong.
    assert fused["top1"] == pytest.approx(1 / 3)
    metric.results[0]["num_clips"] = 0  # without the first item video 0 is right
    assert metric.compute_metrics(metric.results)["top1"] == pytest.approx(2 / 3)
