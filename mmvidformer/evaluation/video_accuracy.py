"""Accuracy of videos whose clips were scored in several items."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mmaction.evaluation import AccMetric

from mmvidformer.registry import METRICS


@METRICS.register_module()
class VideoAccuracy(AccMetric):
    """MMAction2's ``AccMetric`` after averaging the scores of each video over its items.

    For ``mmvidformer.TiledVideoDataset``. An item counts by its number of clips, so that the result
    is the mean over all clips of the video. The samples need ``video_id`` and ``num_clips``:
    ``dict(type="PackActionInputs", meta_keys=("video_id", "num_clips"))``.

    Arguments are those of ``AccMetric``.

    Raises:
        KeyError: If a sample lacks one of the two.
    """

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Keep score, label, video and number of clips of each item."""
        super().process(data_batch, data_samples)
        new = self.results[len(self.results) - len(data_samples) :]
        for result, sample in zip(new, data_samples, strict=True):
            for key in ("video_id", "num_clips"):
                if key not in sample:
                    raise KeyError(
                        f"VideoAccuracy needs {key!r} of each sample; "
                        "give PackActionInputs meta_keys=('video_id', 'num_clips')"
                    )
                result[key] = sample[key]

    def compute_metrics(self, results: list[dict]) -> dict[str, float]:
        """Average over the items of each video, then count."""
        items = defaultdict(list)
        for result in results:
            items[result["video_id"]].append(result)
        return super().compute_metrics([_fuse(parts) for parts in items.values()])


def _fuse(parts: list[dict]) -> dict:
    clips = sum(part["num_clips"] for part in parts)
    pred = sum(part["pred"] * (part["num_clips"] / clips) for part in parts)
    return {"pred": pred, "label": parts[0]["label"]}
