"""Boxes of persons in frames, by torchvision's detector."""

import math
from functools import cache
from typing import Any

import numpy as np
import torch

from mmvidformer.apis.windows import times_of

PERSON = 1  # class of COCO
MIN_SCORE = 0.8


class PersonDetector:
    """torchvision's Faster R-CNN (ResNet-50 FPN, version 2) with its weights of COCO.

    The first time the weights are downloaded (167 MB).

    Args:
        device: Where it runs.
    """

    def __init__(self, device: str | torch.device) -> None:
        from torchvision.models import detection

        weights = detection.FasterRCNN_ResNet50_FPN_V2_Weights.COCO_V1
        self.device = torch.device(device)
        self.model = detection.fasterrcnn_resnet50_fpn_v2(weights=weights).eval().to(self.device)

    @torch.no_grad()
    def __call__(self, frame: np.ndarray, min_score: float = MIN_SCORE) -> list[tuple[float, ...]]:
        """Find persons in an RGB frame (H, W, 3), uint8.

        Returns:
            Left, top, right and bottom of each, in shares of width and height, best first.
        """
        pixels = torch.from_numpy(frame).to(self.device).permute(2, 0, 1) / 255
        (objects,) = self.model([pixels])
        kept = (objects["labels"] == PERSON) & (objects["scores"] >= min_score)
        height, width = frame.shape[:2]
        shares = objects["boxes"][kept] / objects["boxes"].new_tensor([width, height] * 2)
        return [tuple(row) for row in shares.clamp(0, 1).tolist()]

    def moments(self, opened: dict[str, Any]) -> dict[int, list[tuple[float, ...]]]:
        """Find persons at each whole second of a video; seconds without any are left out.

        Args:
            opened: A result of ``VideoPipeline.open`` for a file.

        Raises:
            ValueError: As ``times_of``.
        """
        times = times_of(opened)
        video = opened["video_reader"]
        moments: dict[int, list[tuple[float, ...]]] = {}
        for second in range(math.ceil(times.seconds(len(video)))):
            (frame,) = video.get_batch([int(times.at(second))]).asnumpy()
            boxes = self(frame)
            if boxes:
                moments[second] = boxes
        return moments


load_detector = cache(PersonDetector)  # by device
