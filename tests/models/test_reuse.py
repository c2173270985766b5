"""reuse_frames: the scores of separate clips, with what they share computed once."""

import copy

import pytest
import torch
from torch import nn

from mmvidformer.models import TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.inference import (
    ReuseBlocks,
    frames_of_stage,
    optimize_for_inference,
    reuse_frames,
    samples,
)
from tests.models.tiny import ARCH, perturb

TUBE = dict(arch=ARCH, clip_len=8, img_size=16, stem=dict(tubelet=(2, 8, 8)))
PATCH = {**TUBE, "stem": dict(tubelet=(1, 8, 8))}
CAUSAL = dict(block=({"pattern": "causal_time"},), positions="none")
TIME = dict(block=({"pattern": "time"},), positions="time")
PAIRS = dict(pattern=dict(type="frames", size=2))


def blocks(*sublayers: dict, positions: str = "space", **options: object) -> dict:
    """An encoder of a composed model, before one that attends over time."""
    first = dict(block=sublayers or (PAIRS,), positions=positions, **options)
    return dict(encoders=(first, TIME), num_heads=2, **TUBE)


BLOCKS = {
    "pairs": blocks(),
    "windows": blocks(
        dict(pattern=dict(type="window", size=(2, 2, 1), shift=(0, 1, 0))),
        dict(pattern=["space", "height"]),
        positions="none",
        rope="axial",
    ),
    "segments": blocks(dict(pattern="space", shifts=[dict(type="temporal", segment=2)])),
}
WHOLE = {
    "times": blocks(positions="time"),
    "class token": blocks(cls="mean"),
    "shifted windows": blocks(dict(pattern=dict(type="window", size=(2, 1, 1), shift=(1, 0, 0)))),
    "dilated": blocks(PAIRS, dict(pattern="dilated_time")),
    "past": blocks(PAIRS, dict(pattern=dict(type="causal_time", past=2))),
    "shift": blocks(dict(pattern="space", shifts=["temporal"])),
    "places in time": blocks(rope="vjepa2"),
    "kernel": blocks(dict(pattern=PAIRS["pattern"], kernel="linformer"), rope="axial"),
    "no blocks of 3": blocks(dict(pattern=dict(type="frames", size=3))),
    "one block": blocks(PAIRS, dict(pattern=dict(type="frames", size=4))),
}
MODELS = {
    **{
        name: lambda options=options: VideoTransformer(**options)
        for name, options in BLOCKS.items()
    },
    "vivit 2": lambda: ViViT(**TUBE),
    "vivit 2, means": lambda: ViViT(pool="mean", **TUBE),
    "vivit, frames averaged": lambda: ViViT(temporal_depth=0, **TUBE),
    "space only": lambda: TimeSformer(scheme="space_only", **PATCH),
    "causal": lambda: VideoTransformer(
        encoders=(dict(frames="pool", positions="space"), CAUSAL), pool="none", **TUBE
    ),
}


def windows(frames: int, size: int, step: int) -> list[torch.Tensor]:
    video = torch.randn(1, 3, 20, 16, 16, generator=torch.Generator().manual_seed(1))
    return [video[:, :, first : first + size] for first in range(0, frames - size + 1, step)]


def counted(model: nn.Module) -> tuple[nn.Module, list[int]]:
    """A copy that reuses frames, and a list to which the sizes of its batches are appended."""
    fast, rows = reuse_frames(model), []
    reuse = fast.encoders[0].run_blocks
    run = reuse.function
    reuse.function = lambda grid, *rest: rows.append(len(grid)) or run(grid, *rest)
    return fast, rows


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_windows_have_the_scores_of_separate_clips(name: str, optimized: bool) -> None:
    torch.manual_seed(0)
    model = perturb(MODELS[name]()).eval()
    block = model.embed.tubelet[0] * (2 if name in BLOCKS else 1)
    assert frames_of_stage(model) == block
    fast, rows = counted(optimize_for_inference(model) if optimized else model)
    step = max(block, 2)
    for clip in windows(20, 8, step):
        torch.testing.assert_close(fast(clip), model(clip), rtol=0, atol=1e-5)
    assert rows == [8 // block] + [step // block] * (12 // step)
    rows.clear()
    views = torch.cat([*windows(14, 8, step), windows(8, 8, 1)[0].flip(-1)])
    torch.testing.assert_close(counted(model)[0](views), model(views), rtol=0, atol=1e-5)
    fast(views)
    assert sum(rows) == 8 // block  # those of the last view, which is mirrored


@pytest.mark.parametrize("name", WHOLE)
def test_tokens_that_depend_on_the_clip_are_not_shared(name: str) -> None:
    model = VideoTransformer(**WHOLE[name])
    assert frames_of_stage(model) is None and reuse_frames(model) is model


def test_own_positions_may_depend_on_the_clip() -> None:
    model = VideoTransformer(**BLOCKS["pairs"])
    model.encoders[0].pos_embed = nn.Identity()
    assert frames_of_stage(model) is None


@torch.no_grad()
def test_clips_that_blocks_do_not_fill_pass() -> None:
    model = perturb(MODELS["pairs"]()).eval()
    fast, rows = counted(model)
    clip = windows(6, 6, 1)[0]
    torch.testing.assert_close(fast(clip), model(clip))
    assert rows == [1]


@torch.no_grad()
def test_what_is_remembered_is_bounded() -> None:
    model = MODELS["vivit 2"]().eval()
    fast, rows = counted(model)
    reuse = fast.encoders[0].run_blocks
    reuse.limit = 8
    for clip in windows(20, 8, 2):
        torch.testing.assert_close(fast(clip), model(clip), rtol=0, atol=1e-5)
    assert rows == [4] + [1] * 6
    assert [len(x) for x in reuse.kept] == [8, 8, 8] and len(reuse.keys) == 8
    rows.clear()
    fast(windows(16, 8, 8)[1])  # the oldest 4 of the 8 that are kept may be replaced
    fast(windows(8, 8, 1)[0])
    assert rows == [2, 4]
    rows.clear()
    views = torch.cat(windows(14, 8, 2))  # more than it remembers
    torch.testing.assert_close(fast(views), model(views), rtol=0, atol=1e-5)
    assert rows == [7] and len(reuse.kept[0]) == 2 * 4 * 4


def test_other_models_and_gradients_pass() -> None:
    model = ViViT(scheme="spacetime", **TUBE)
    assert reuse_frames(model) is model and frames_of_stage(model) is None
    model = perturb(MODELS["vivit 2"]())
    fast, clip = reuse_frames(model), windows(8, 8, 1)[0]
    torch.testing.assert_close(fast(clip), model(clip))
    fast(clip).sum().backward()
    assert not fast.encoders[0].run_blocks.kept
    assert model.encoders[0].blocks[0].mlp.fc1.weight.grad is not None  # the weights are shared
    with pytest.raises(ValueError, match="smaller than a tubelet"):
        fast(clip[:, :, :1])
    with torch.no_grad():
        for one in (fast, reuse_frames(MODELS["pairs"]().eval())):
            outputs: list = []
            one.encoders[0](one.embed(clip), outputs=outputs)
            assert len(outputs) == 2 and not one.encoders[0].run_blocks.kept
        fast(clip)
        twin = copy.deepcopy(fast)
        torch.testing.assert_close(twin(clip), model.eval()(clip), rtol=0, atol=1e-5)


@torch.no_grad()
def test_rows_are_known_by_all_that_changes_their_outputs() -> None:
    rows = torch.randn(4, 5, 200)
    rows[2] = rows[0]
    rows[3] = rows[0]
    rows[3, 0, 1] += 1  # which is no sample
    keys = samples(rows)
    assert keys[0] == keys[2] == keys[3] != keys[1]
    called: list[int] = []
    function = ReuseBlocks(lambda x: called.append(len(x)) or (x @ torch.ones(200, 1), None), 9)
    for turn, new in ((rows, 3), (rows[:3], 1), (rows[1:3], 0), (rows[3:], 1), (rows, 2)):
        found = function(turn)
        torch.testing.assert_close(found[0], turn.sum(-1, keepdim=True), rtol=0, atol=1e-4)
        assert found[1] is None and sum(called) == new
        called.clear()
    with torch.autocast("cpu", torch.bfloat16):
        assert function(rows)[0].dtype == torch.bfloat16
    assert function(rows.double().float())[0].dtype == torch.float32
    with torch.inference_mode():
        function(rows)
    function(rows[:, :2].contiguous())
    assert called == [3, 3, 3, 2 + 1]


@torch.no_grad()
def test_nothing_is_known_after_an_error() -> None:
    function = ReuseBlocks(lambda x: x + 1 if len(x) < 3 else 1 / 0, 9)
    rows = torch.randn(3, 4)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            function(rows)
    torch.testing.assert_close(function(rows[:2]), rows[:2] + 1)
