"""Multi-label classification: any number of classes a video."""

from typing import Any

from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.tasks.classification import Classification


class MultiLabel(Classification):
    """Any number of classes a video."""

    name, least_classes = "labels", 1
    has_probes = False
    loss = "BCELossWithLogits"
    head = "mmvidformer.MultiLabelHead"
    metric, best_metric = "AccMetric", "acc/mean_average_precision"

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Let MMAction2's ``VideoDataset`` read several classes a line."""
        return dict(multi_class=True, num_classes=len(lists.classes))

    def metric_config(self, lists: VideoLists, ann_file: str) -> dict[str, Any]:
        """Return MMAction2's metric."""
        return dict(type=self.metric, metric_list=("mean_average_precision",))
