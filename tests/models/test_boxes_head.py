"""The classes of boxes."""

import pytest
import torch
import torch.nn.functional as F
from mmaction.structures import ActionDataSample
from mmengine.structures import InstanceData
from torch import nn

from mmvidformer.models.boxes_head import BoxesHead


def sample(boxes: list, labels: list, proposals: list | None = None) -> ActionDataSample:
    """A clip of 32 x 64 pixels with boxes in pixels."""
    one = ActionDataSample(metainfo=dict(img_shape=(32, 64)))
    one.gt_instances = InstanceData(bboxes=torch.tensor(boxes), labels=torch.tensor(labels))
    if proposals:
        one.proposals = InstanceData(bboxes=torch.tensor(proposals))
    return one


@pytest.fixture
def head() -> BoxesHead:
    """A head whose logits are the largest tokens of the box."""
    head = BoxesHead(3, 3, roi_size=2)
    head.fc_cls = nn.Identity()
    return head


def test_a_box_is_classified_by_its_tokens(head) -> None:
    """Tokens of 2 x 4 places, 16 pixels each; the mean of two steps counts."""
    tokens = torch.zeros(2, 2, 2, 4, 3)
    tokens[0, :, 0, 1, 1] = torch.tensor([4.0, 6.0])
    tokens[1, :, 1, 3, 2] = 8.0
    places = [[0, 0.25, 0, 0.5, 0.5], [0, 0.5, 0.5, 1, 1], [1, 0.75, 0.5, 1, 1]]
    found = head(tokens, torch.tensor(places))
    # A bin of half a token takes its value between the centers of two tokens; the border counts on.
    assert found[0, 1].item() == pytest.approx(5 * 0.75, abs=1e-5)
    assert not found[0, [0, 2]].any() and not found[1].any()
    assert found[2, 2].item() == pytest.approx(8, abs=1e-5)  # beyond the border it is constant
    with pytest.raises(ValueError, match="boxes need tokens at several places"):
        head(tokens[:, :, :1, :1], torch.tensor(places))


@pytest.mark.parametrize("columns", [3, 4])
def test_loss_of_all_boxes(head, columns: int) -> None:
    """AVADataset has a column before the first class."""
    torch.manual_seed(0)
    labels = [[0.0] * (columns - 3) + row for row in ([1.0, 0, 1], [0.0, 0, 0], [0.0, 1, 0])]
    boxes = [[0.0, 0, 16, 16], [16.0, 0, 64, 32], [48.0, 16, 64, 32]]
    samples = [sample(boxes[:2], labels[:2]), sample(boxes[2:], labels[2:])]
    tokens = torch.randn(2, 2, 2, 4, 3)
    shares = [[i, a / 64, b / 32, c / 64, d / 32] for i, (a, b, c, d) in zip((0, 0, 1), boxes)]  # noqa: B905
    logits = head(tokens, torch.tensor(shares))
    truth = torch.tensor(labels)[:, -3:]
    expected = F.binary_cross_entropy_with_logits(logits, truth)
    torch.testing.assert_close(head.loss(tokens, samples)["loss_cls"], expected)


def test_predictions_are_those_of_the_proposals(head) -> None:
    tokens = torch.randn(2, 2, 2, 4, 3)
    one, two = (
        sample([[0.0, 0, 16, 16]], [[1.0, 0, 0]], [[32.0, 16, 64, 32]] * 2),
        sample([[0.0, 0, 64, 32]], [[1.0, 0, 0]]),
    )
    head.predict(tokens, [one, two])
    assert one.pred_instances.bboxes.tolist() == [[0.5, 0.5, 1, 1]] * 2
    assert two.pred_instances.bboxes.tolist() == [[0, 0, 1, 1]]
    logits = head(tokens, torch.tensor([[1.0, 0, 0, 1, 1]]))
    expected = torch.cat([torch.zeros(1, 1), logits.sigmoid()], dim=1)
    torch.testing.assert_close(two.pred_instances.scores, expected)
