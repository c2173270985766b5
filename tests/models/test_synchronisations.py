"""Where a forward pass or a training step waits for the device, and why.

On a CPU nothing waits, so this records what would: a number that Python reads, a copy to the CPU,
and an operator whose output has a size that depends on values.
"""

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from mmaction.structures import ActionDataSample
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import mmvidformer
from mmvidformer.models import TimeSformer, VideoTransformer
from mmvidformer.models.boxes_head import BoxesHead
from mmvidformer.models.fast.training import optimize_for_training
from mmvidformer.models.moments_head import MomentsHead
from mmvidformer.models.segments_head import SegmentsHead
from tests.export.recognizers import MODEL_LIST, SIZE, build
from tests.models.test_boxes_head import sample as of_boxes
from tests.models.test_segments_head import sample as of_times
from tests.models.tiny import ARCH

# Function: why it waits.
REASONS = {
    "models/fast/kept_rows.py:kept_rows": "runs on a CPU only",
    "layers/kernels/softmax.py:resume": "runs on a CPU only; on a GPU a mask hides the past",
    "layers/positions.py:_first_rows": "a stream must not pass the end of a learned table",
    "models/lengths.py:valid_frames": "clips of different lengths run one length at a time",
    "layers/frames.py:average_frames": "clips of different lengths have frames of their own",
    "models/task_heads.py:loss_by_feat": "the loss of a config takes the frames that have a label",
    "repairs/half_scores.py:_loss": "MMAction2's heads count right classes in NumPy",
}
# The same of losses, of what the annotation says.
ANNOTATIONS = "numbers of an annotation, which are on the CPU"
TARGETS = {
    "segments": {
        f"models/segments_head.py:{name}": ANNOTATIONS
        for name in ("points", "targets", "visible_segments")
    },
    "moments": {"models/moments_head.py:targets": ANNOTATIONS},
    "boxes": {},
}
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "bincount"}
PACKAGE = str(Path(mmvidformer.__file__).parent) + "/"


def place() -> str | None:
    """The innermost function of the package that runs; None if it is not one of a model."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        name = frame.f_code.co_name
        if path.startswith(PACKAGE) and name != "<listcomp>":  # a frame before Python 3.12
            return f"{path.removeprefix(PACKAGE)}:{name}"
        frame = frame.f_back
    return None


class Waits(TorchDispatchMode):
    """Records operators that wait for the device."""

    def __init__(self, places: set[str | None]) -> None:
        super().__init__()
        self.places = places

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        indices = tree_leaves(args[1:2]) if name in ("index", "index_put", "index_put_") else ()
        masks = any(isinstance(x, Tensor) and x.dtype == torch.bool for x in indices)
        if name in WAITING or masks:
            self.places.add(place())
        return func(*args, **(kwargs or {}))


@contextmanager
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str | None]]:
    """Collect where the package waits for a device."""
    places: set[str | None] = set()
    with monkeypatch.context() as patch:
        for name in ("cpu", "numpy", "tolist"):
            method = getattr(Tensor, name)

            def record(tensor: Tensor, *args: object, method=method, **options: object) -> object:
                places.add(place())
                return method(tensor, *args, **options)

            patch.setattr(Tensor, name, record)
        with Waits(places):
            yield places
    places.discard(None)


def backward(out: object) -> None:
    leaves = [x for x in tree_leaves(out) if isinstance(x, Tensor) and x.requires_grad]
    sum(x.float().sum() for x in leaves).backward()


@pytest.mark.parametrize("name", MODEL_LIST)
def test_forward_and_backward_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "unrolling" in name:
        pytest.skip("PyTorch packs sequences by their lengths, on the CPU")
    if name == "boxes":
        pytest.skip("its head takes boxes, too")
    model, inputs = build(MODEL_LIST[name]), torch.randn(2, 1, *SIZE)
    if hasattr(model, "stream"):
        inputs = inputs[:, 0].transpose(1, 2)
    with waits(monkeypatch) as places:
        with torch.no_grad():
            model.extract_feat(inputs, stage="head")
        optimize_for_training(model.train())
        backward(model.extract_feat(inputs, stage="head"))
    assert places <= REASONS.keys()


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODEL_LIST)
def test_nothing_waits_on_a_gpu(name: str) -> None:
    """PyTorch raises an error at what waits."""
    if "unrolling" in name or name == "boxes":
        pytest.skip("see above")
    model, inputs = build(MODEL_LIST[name]).cuda(), torch.randn(2, 1, *SIZE, device="cuda")
    if hasattr(model, "stream"):
        inputs = inputs[:, 0].transpose(1, 2)

    def run() -> None:
        with torch.no_grad():
            model.eval().extract_feat(inputs, stage="head")
        backward(model.train().extract_feat(inputs, stage="head"))

    optimize_for_training(model)
    run()  # tables are computed once
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")


LABELS = {
    "divided_space_time": 1,
    "fixation joint": 1,
    "labels": [0.0, 1.0, 0.0, 0.0, 1.0],
    "number": 2.5,
    "frames": [0, 1, 1, -1],
    "linear anticipation": [0, 1, 2],
}


@pytest.mark.parametrize("name", LABELS)
def test_losses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = build(MODEL_LIST[name]).train(), torch.randn(2, 1, *SIZE)
    if hasattr(model, "stream"):
        inputs = inputs[:, 0].transpose(1, 2)
    samples = [ActionDataSample().set_gt_label(torch.tensor(LABELS[name])) for _ in range(2)]
    with waits(monkeypatch) as places:
        losses = model.loss(inputs, samples)
        backward(losses)
    assert places <= REASONS.keys()
    if name == "frames":
        assert places == {"models/task_heads.py:loss_by_feat"}


def part_losses(name: str, device: str = "cpu") -> Callable[[], dict]:
    """The losses of a head that answers with times or boxes."""
    torch.manual_seed(0)
    feats = torch.randn(2, 4, 2, 4, 8, device=device)
    if name == "boxes":
        head, sample = BoxesHead(3, 8), of_boxes([[0.0, 0, 16, 16]], [[1.0, 0, 1]])
    else:
        head = (SegmentsHead if name == "segments" else MomentsHead)(3, 8, hidden_dim=16)
        spans = [[1.0, 3.0, 1], [2.0, 6.0, 2]] if name == "segments" else [[1.0, 1.0, 1]]
        sample = of_times(spans, clips=1)
    head.to(device).train()
    return lambda: head.loss(feats, [sample, sample])


@pytest.mark.parametrize("name", TARGETS)
def test_losses_of_times_and_boxes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = part_losses(name)
    with waits(monkeypatch) as places:
        backward(losses())
    assert places == TARGETS[name].keys()


@pytest.mark.gpu
@pytest.mark.parametrize("name", TARGETS)
def test_losses_of_times_and_boxes_on_a_gpu(name: str) -> None:
    losses = part_losses(name, "cuda")
    backward(losses())
    torch.cuda.set_sync_debug_mode("error")
    try:
        backward(losses())
    finally:
        torch.cuda.set_sync_debug_mode("default")


def other_waits(monkeypatch: pytest.MonkeyPatch) -> set[str | None]:
    """Those of what the models above do not do."""
    size = dict(arch=ARCH, img_size=16, clip_len=4, stem=dict(tubelet=(1, 8, 8)))
    clip = torch.randn(3, 3, 4, 16, 16)
    valid = torch.tensor([[True] * 4, [True] * 2 + [False] * 2, [True] * 4])
    dropping = TimeSformer(**size, drop_path_rate=0.9).train()
    optimize_for_training(dropping)
    past = dict(pattern=dict(type="causal_time", past=2))
    causal = VideoTransformer(**size, block=[past], pool="none", positions="time").eval()
    averaging = TimeSformer(**size, scheme="space_only")
    with waits(monkeypatch) as places:
        for _ in range(8):
            dropping(clip)
        averaging(clip, valid)
        state = None
        for _ in range(2):
            _, state = causal.step(clip[:, :, :1], state)
    return places


def test_each_reason_is_of_a_place_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others than those of the losses."""
    of_losses = {place for place in REASONS if "loss" in place}
    assert other_waits(monkeypatch) == REASONS.keys() - of_losses


def test_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of nothing would pass all other tests."""

    class Reads(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x > 0]

    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", str(Path(__file__).parent) + "/")
    functions = (
        lambda x: x.sum().item(),
        lambda x: bool(x.any()),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        Reads(),
        lambda x: x.nonzero(),
    )
    for function in functions:
        with waits(monkeypatch) as places:
            function(torch.randn(3))
        assert len(places) == 1, function
    with waits(monkeypatch) as places:
        copy.deepcopy(torch.randn(3)).mul(2)[torch.tensor([0, 2])].sum()
    assert not places
