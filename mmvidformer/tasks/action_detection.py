"""Spatio-temporal action detection: the classes of boxes at moments."""

from typing import Any

from mmengine.config import Config

from mmvidformer.config import clip_shape
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.tasks.base import Steps, Task, rates_of, sampler_of

META_KEYS = ("img_shape", "video_id", "timestamp")
NAMES_FILE = "label_map.pbtxt"  # which MMAction2's ``AVAMetric`` reads


class ActionDetection(Task):
    """The classes of boxes at moments."""

    name = "boxes"
    needs_places = True
    head = "mmvidformer.BoxesHead"
    metric, best_metric = "mmvidformer.BoxesMetric", "mAP/overall"
    unaware = ("blending", "augment")

    def write_files(self, lists: VideoLists) -> None:
        """Write the names of the classes for the metric."""
        items = [
            f'item {{\n  name: "{name}"\n  id: {number}\n}}\n'
            for number, name in enumerate(lists.classes, start=1)
        ]
        (lists.root / NAMES_FILE).write_text("".join(items), encoding="utf-8")

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Return the dataset, with the names of the classes."""
        return dict(type="mmvidformer.BoxDataset", metainfo=dict(classes=list(lists.classes)))

    def model_config(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Keep all tokens."""
        return {**super().model_config(cfg, lists), "backbone": dict(pool="none")}

    def pipeline(self, steps: Steps, split: str, cfg: Config) -> list[dict[str, Any]]:
        """Read whole frames around the moments, flipped in training."""
        _, frames, height, width = clip_shape(cfg)
        flip = [dict(type="Flip", flip_ratio=0.5)] if split == "train" else []
        return [
            dict(type="mmvidformer.VideoInit"),
            dict(type="mmvidformer.FramesAround", clip_len=frames, **rates_of(sampler_of(steps))),
            dict(type="mmvidformer.VideoDecode"),
            dict(type="Resize", scale=(width, height), keep_ratio=False),
            *flip,
            dict(type="FormatShape", input_format="NCTHW"),
            dict(type="PackActionInputs", meta_keys=META_KEYS),
        ]

    def metric_config(self, lists: VideoLists, ann_file: str) -> dict[str, Any]:
        """Return the metric, which reads the list."""
        return dict(
            type=self.metric,
            ann_file=ann_file,
            exclude_file=None,
            label_file=str(lists.root / NAMES_FILE),
            action_thr=0.0,
            num_classes=len(lists.classes) + 1,
        )
