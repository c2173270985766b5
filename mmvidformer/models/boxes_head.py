"""Who does what: the classes of boxes in a frame."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Instances, Samples
from mmvidformer.layers.scores import check_tokens, widen
from mmvidformer.models.head import TimeSformerHead
from mmvidformer.models.heads import refuse_unread


@MODELS.add
class BoxesHead(TimeSformerHead):
    """Classify boxes by the tokens inside, averaged over time, each with any number of classes.

    Regions are cut out by torchvision's ``roi_align`` and their largest values taken, as in
    SlowFast's models for AVA (Feichtenhofer et al. 2019). Boxes are those of ``BoxDataset`` or
    MMAction2's ``AVADataset``: in training ``gt_instances`` with labels (n, classes); in testing
    ``proposals`` if there are some. A column of labels before the first class, as ``AVADataset``
    has, is left out.

    Args:
        num_classes: Number of classes.
        in_channels: Token width D.
        roi_size: Height and width of a region.
        **kwargs: Further arguments of ``TimeSformerHead``; ``loss_cls``, of logits and labels
            (n, classes), is ``BCELossWithLogits`` by default.
    """

    answers_parts = True  # of a clip: a sample has not one label
    reads_places = True  # of the tokens: none can be left out
    output_shape = "(boxes, classes)"  # of an exported graph, as its file says

    def __init__(
        self, num_classes: int, in_channels: int, roi_size: int = 7, **kwargs: Any
    ) -> None:
        options = {"loss_cls": dict(type="BCELossWithLogits"), **kwargs}
        options |= {"multi_class": True, "average_clips": "prob"}
        super().__init__(num_classes, in_channels, **options)
        refuse_unread(self, kwargs, "label_smooth_eps", "average_clips", "multi_class")
        self.roi_size = roi_size

    def forward(self, x: Tensor, boxes: Tensor, **kwargs: Any) -> Tensor:
        """Return logits (n, classes), at least in float32.

        Args:
            x: Tokens (N, T, H, W, D).
            boxes: Number of the clip, and left, top, right and bottom as shares of the clip's width
                and height (n, 5).
            **kwargs: Not used.

        Raises:
            UserError: If the tokens have no places.
        """
        from torchvision.ops import roi_align  # takes seconds to import

        check_tokens(self, x)
        height, width = x.shape[2:4]
        if height * width == 1:
            raise UserError("boxes need tokens at several places, but the backbone pools them")
        # Places in pixels need more digits than half precision has.
        maps, boxes = widen(x.mean(dim=1).movedim(-1, 1)), widen(boxes)
        scale = boxes.new_tensor([1, width, height, width, height])
        regions = roi_align(maps, (boxes * scale).to(maps), self.roi_size, aligned=True)
        return widen(super().forward(regions.amax(dim=(2, 3)).to(x.dtype)))

    def loss(self, feats: Tensor, data_samples: Samples, **kwargs: Any) -> dict[str, Tensor]:
        """Compute the loss of the boxes of all clips."""
        instances = [sample.gt_instances for sample in data_samples]
        logits = self(feats, relative_boxes(instances, data_samples).to(feats.device))
        labels = torch.cat([clip.labels[:, -self.num_classes :] for clip in instances])
        return {"loss_cls": self.loss_cls(logits, labels.to(logits))}

    def predict(self, feats: Tensor, data_samples: Samples, **kwargs: Any) -> Samples:
        """Store ``pred_instances`` as MMAction2's ``AVAMetric`` reads them.

        ``bboxes`` (n, 4) are shares of width and height; ``scores`` (n, 1 + classes) are
        probabilities, after a column of zeros.
        """
        instances = [s.get("proposals", s.get("gt_instances")) for s in data_samples]
        boxes = relative_boxes(instances, data_samples).to(feats.device)
        scores = F.pad(self(feats, boxes).sigmoid(), (1, 0))
        for number, sample in enumerate(data_samples):
            of_sample = boxes[:, 0] == number
            sample.pred_instances = Instances(bboxes=boxes[of_sample, 1:], scores=scores[of_sample])
        return data_samples


def relative_boxes(instances: list[Instances], samples: Samples) -> Tensor:
    """Return rows (n, 5): the number of the clip, and a box in shares of its width and height."""
    rows = []
    for number, (clip, sample) in enumerate(zip(instances, samples, strict=True)):
        height, width = sample.img_shape
        pixels = clip.bboxes.float()
        boxes = (pixels / pixels.new_tensor([width, height, width, height])).clamp(0, 1)
        rows.append(F.pad(boxes, (1, 0), value=number))
    return torch.cat(rows)
