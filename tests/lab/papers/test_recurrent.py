"""Conv-TT-LSTM and RULSTM's first LSTM: the official equations, streams, lengths."""

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from lab.papers.recurrent import ConvTTLstm, ConvTTLstmLayer, RollingClassifier, RollingLstm
from mmvidformer.config import load_config
from mmvidformer.errors import UserError
from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.registry import MODELS

NECKS = {
    "conv_tt_lstm": lambda: ConvTTLstm(3, [4, 6], [1, 2], steps=4, order=2, rank=2, kernel=3),
    "rolling": lambda: RollingLstm(3),
}


def reference(layer: ConvTTLstmLayer, clip: Tensor) -> list[Tensor]:
    """Hidden states by the equations of Su et al.: a 3D convolution slides over each window."""
    steps, order = layer.steps, len(layer.cores)
    size = layer.gates.kernel_size[0]
    zeros = torch.zeros(len(clip), layer.channels, *clip.shape[-2:])
    hidden, cell, found = [zeros] * steps, zeros, []
    for frame in clip.unbind(1):
        train: Tensor | None = None if order else hidden[-1]
        for n in range(order):
            window = torch.stack(hidden[n : n + layer.window], dim=-1)
            weight = layer.cores[n].weight.unflatten(1, (layer.window, layer.channels))
            kernel = weight.permute(0, 2, 3, 4, 1)  # (rank, C, k, k, window), as a 3D convolution
            core = nn.functional.conv3d(
                window, kernel, layer.cores[n].bias, padding=(size // 2, size // 2, 0)
            )[..., 0]
            train = core if train is None else core + layer.links[n - 1](train)
        parts = layer.gates(torch.cat([frame, train], dim=1)).split(layer.channels, dim=1)
        i, f, o = (part.sigmoid() for part in parts[:3])
        cell = f * cell + i * parts[3].tanh()
        hidden = [*hidden[1:], o * cell.tanh()]
        found.append(hidden[-1])
    return found


@pytest.mark.parametrize(("order", "steps"), [(0, 1), (1, 1), (3, 3), (2, 4), (3, 5)])
def test_the_train_is_that_of_the_paper(order: int, steps: int) -> None:
    torch.manual_seed(0)
    layer = ConvTTLstmLayer(3, 4, order=order, steps=steps, rank=2, kernel=3)
    clip = torch.randn(2, 6, 3, 5, 4)
    output, (past, cell) = layer(clip)
    wanted = torch.stack(reference(layer, clip), dim=1)
    torch.testing.assert_close(output.y, wanted)
    torch.testing.assert_close(past[:, -1], wanted[:, -1])
    torch.testing.assert_close(output.statt[:, -1], cell)
    assert past.shape == (2, steps, 4, 5, 4)


@pytest.mark.parametrize("name", NECKS)
def test_a_stream_gives_what_the_clip_gives(name: str) -> None:
    torch.manual_seed(0)
    neck = NECKS[name]().eval()
    clip = torch.randn(2, 5, 3, 6, 4)
    whole, _ = neck(clip)
    state = None
    for t in range(5):
        output, state = neck.step(clip[:, t], state)
        for part, of_clip in zip(output, whole, strict=True):
            torch.testing.assert_close(part, of_clip[:, t])


@pytest.mark.parametrize("name", NECKS)
def test_steps_after_the_end_of_a_clip_are_zero(name: str) -> None:
    torch.manual_seed(0)
    neck = NECKS[name]().eval()
    output, _ = neck(torch.randn(2, 4, 3, 6, 4), torch.tensor([4, 2]))
    for part in output:
        assert not part[1, 2:].any() and part[0, 2:].any() and part[1, :2].any()


@pytest.mark.parametrize(
    "options", [{"order": 3, "steps": 2}, {"order": -1}, {"order": 0, "steps": 0}, {"kernel": 4}]
)
def test_trains_that_do_not_fit_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match="0 <= order <= steps, a step and an odd kernel, got order"):
        ConvTTLstmLayer(3, 4, **options)


def test_the_second_lstm_continues_the_first() -> None:
    """It repeats the frame once more than there are steps to the action, as RULSTM's code does."""
    torch.manual_seed(0)
    neck = RollingLstm(4).eval()
    classifier = RollingClassifier(4, {"action": 5, "verb": 2, "noun": 3}).eval()
    output, _ = neck(torch.randn(2, 3, 4, 2, 2))
    means = HorstOutput(*(part.mean((-2, -1)) for part in output))
    logits = classifier(*means, ahead=[4, 3, 2])
    cell = nn.LSTMCell(4, 4)
    names = {f"{key}_l0": value for key, value in cell.state_dict().items()}
    assert names.keys() == classifier.unroll.state_dict().keys()
    cell.load_state_dict({k: classifier.unroll.state_dict()[f"{k}_l0"] for k in cell.state_dict()})
    for t, ahead in enumerate([4, 3, 2]):
        state = (means.e[:, t], means.statt[:, t])
        for _ in range(ahead + 1):
            state = cell(means.y[:, t], state)
        torch.testing.assert_close(logits["action"][:, t], classifier.action(state[0]))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("table1/conv_lstm_25", 1),
        ("table1/conv_tt_lstm_reproduced_50", 1),
        ("table5/ru_rgb", [0, 1, 2]),
    ],
)
def test_rows_are_trained(name: str, label: int | list[int]) -> None:
    """With 8 channels."""
    torch.manual_seed(0)
    model = load_config(f"horst/{name}").model
    model.backbone = dict(type="mmvidformer.ConvStem", channels=8)
    model.neck.in_channels = model.cls_head.in_channels = 8
    if "channels" in model.neck:
        model.neck.update(channels=[8, 8], strides=[1, 2])
    with DefaultScope.overwrite_default_scope("mmaction"):
        recognizer = MODELS.build(model).train()
    samples = [ActionDataSample().set_gt_label(label) for _ in range(2)]
    losses = recognizer(torch.randn(2, 1, 3, 5, 32, 32), samples, mode="loss")
    loss = sum(value for key, value in losses.items() if key.startswith("loss"))
    loss.backward()
    read = recognizer.neck.parameters()
    assert all(parameter.grad is not None for parameter in read)
