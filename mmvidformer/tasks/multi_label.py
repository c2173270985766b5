"""Multi-label classification: any number of classes a video."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmvidformer.data.list_folders import VideoLists
from mmvidformer.tasks.classification import Classification, all_lowest


class MultiLabel(Classification):
    """Any number of classes a video."""

    name, least_classes = "labels", 1
    probes = ()
    loss = "BCELossWithLogits"
    head = "mmvidformer.MultiLabelHead"
    heads_by_classifier = {"AttentiveHead": "mmvidformer.MultiLabelAttentiveHead"}
    metric, best_metric = "mmvidformer.LabelsMetric", "acc/mean_average_precision"
    has_one_class = False
    activation, threshold = "sigmoid", 0.5

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Whatever fits no other task."""
        return True

    @staticmethod
    def worst(sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return a sample with the lowest score for all classes."""
        return {**sample, "pred_score": all_lowest(sample["pred_score"])}

    def chance(self, lists: VideoLists, split: str) -> float:
        """Return the mean average precision of equal scores: the mean share of the classes."""
        sizes = self.class_sizes(lists, split)
        return float(sizes[sizes > 0].mean() / lists.counts[split]) if sizes.any() else 0.0

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Let MMAction2's ``VideoDataset`` read several classes a line."""
        return dict(multi_class=True, num_classes=len(lists.classes))
