"""Accuracy on videos whose clips were scored in several items."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mmaction.evaluation import AccMetric

from mmvidformer.registry import METRICS


@METRICS.register_module()
class VideoAccuracy(AccMetric):
    """MMAction2's ``AccMetric`` of the mean scores of each video over its items.

    For ``mmvidformer.TiledVideoDataset``. Items are weighted by their number of clips, so that the
    scores are means over all clips of a video. Data samples need ``video_id`` and ``num_clips``:
    ``dict(type="PackActionInputs", meta_keys=("video_id", "num_clips"))``. Arguments are those of
    ``AccMetric``.
    """

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store score, label, video and number of clips of each item."""
        start = len(self.results)
        super().process(data_batch, data_samples)
        for result, sample in zip(self.results[start:], data_samples, strict=True):
            result.update({key: sample[key] for key in ("video_id", "num_clips")})

    def compute_metrics(self, results: list[dict]) -> dict[str, float]:
        """Average over the items of each video, then compute the accuracy."""
        items = defaultdict(list)
        for result in results:
            items[result["video_id"]].append(result)
        fused = []
        for parts in items.values():
            clips = sum(part["num_clips"] for part in parts)
            pred = sum(part["pred"] * (part["num_clips"] / clips) for part in parts)
            fused.append({"pred": pred, "label": parts[0]["label"]})
        return super().compute_metrics(fused)
