"""Boxes of persons in frames, by torchvision's detector."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch

PERSON = 1  # class of COCO


class Person(NamedTuple):
    """A person in a frame.

    Attributes:
        box: Left, top, right and bottom, in shares of width and height.
        score: How sure the detector is, 0 to 1.
        track: Number of the person in the video, from 1; None if nobody is followed.
    """

    box: tuple[float, ...]
    score: float = 1.0
    track: int | None = None


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
    def __call__(self, frame: np.ndarray, min_score: float) -> list[Person]:
        """Find persons in an RGB frame (H, W, 3), uint8, best first."""
        pixels = torch.from_numpy(frame).to(self.device).permute(2, 0, 1) / 255
        (objects,) = self.model([pixels])
        kept = (objects["labels"] == PERSON) & (objects["scores"] >= min_score)
        height, width = frame.shape[:2]
        shares = objects["boxes"][kept] / objects["boxes"].new_tensor([width, height] * 2)
        boxes, scores = shares.clamp(0, 1).tolist(), objects["scores"][kept].tolist()
        return [Person(tuple(box), score) for box, score in zip(boxes, scores, strict=True)]


load_detector = cache(PersonDetector)  # by device
