"""reuse_frames: the scores of separate clips, with frames that they share computed once."""

import copy

import pytest
import torch
from torch import nn

from mmvidformer.models import TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.inference import optimize_for_inference
from mmvidformer.models.reuse import ReuseRows, frames_of_stage, reuse_frames, samples
from tests.models.tiny import ARCH, perturb

TUBE = dict(arch=ARCH, clip_len=8, img_size=16, stem=dict(tubelet=(2, 8, 8)))
PATCH = {**TUBE, "stem": dict(tubelet=(1, 8, 8))}
CAUSAL = dict(block=({"pattern": "causal_time"},), positions="none")
MODELS = {
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
    reuse.function = lambda grid: rows.append(len(grid)) or run(grid)
    return fast, rows


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_windows_have_the_scores_of_separate_clips(name: str, optimized: bool) -> None:
    torch.manual_seed(0)
    model = perturb(MODELS[name]()).eval()
    tubelet = model.embed.tubelet[0]
    assert frames_of_stage(model) == tubelet
    fast, rows = counted(optimize_for_inference(model) if optimized else model)
    for clip in windows(20, 8, 2):
        torch.testing.assert_close(fast(clip), model(clip), rtol=0, atol=1e-5)
    assert rows == [8 // tubelet] + [2 // tubelet] * 6
    rows.clear()
    views = torch.cat([*windows(14, 8, 2), windows(8, 8, 1)[0].flip(-1)])
    torch.testing.assert_close(counted(model)[0](views), model(views), rtol=0, atol=1e-5)
    fast(views)
    assert sum(rows) == 8 // tubelet  # those of the last view, which is mirrored


@torch.no_grad()
def test_what_is_remembered_is_bounded() -> None:
    model = MODELS["vivit 2"]().eval()
    fast, rows = counted(model)
    reuse = fast.encoders[0].run_blocks
    reuse.limit = 6 * (16 + 2 * 4 * 16) * 4  # class token, and grid before and after, of 6 frames
    for clip in windows(16, 8, 4):
        torch.testing.assert_close(fast(clip), model(clip), rtol=0, atol=1e-5)
        assert 0 < reuse.size <= reuse.limit and set(reuse.places.values()) <= {
            (call, row) for call in reuse.batches for row in range(4)
        }
    assert rows == [4, 2, 2] and len(reuse.batches) == 2
    reuse.limit = 0
    torch.testing.assert_close(fast(clip), model(clip), rtol=0, atol=1e-5)
    assert not reuse.batches and not reuse.places


def test_other_models_and_gradients_pass() -> None:
    model = ViViT(scheme="spacetime", **TUBE)
    assert reuse_frames(model) is model and frames_of_stage(model) is None
    model = perturb(MODELS["vivit 2"]())
    fast, clip = reuse_frames(model), windows(8, 8, 1)[0]
    torch.testing.assert_close(fast(clip), model(clip))
    fast(clip).sum().backward()
    assert not fast.encoders[0].run_blocks.batches
    assert model.encoders[0].blocks[0].mlp.fc1.weight.grad is not None  # the weights are shared
    with pytest.raises(ValueError, match="smaller than a tubelet"):
        fast(clip[:, :, :1])
    grid, outputs = fast.embed(clip), []
    with torch.no_grad():
        fast.encoders[0](grid, outputs=outputs)
        assert len(outputs) == 2 and not fast.encoders[0].run_blocks.batches
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
    with torch.autocast("cpu", torch.bfloat16):
        assert samples(rows)[0] != keys[0]
    others = [rows.reshape(4, 200, 5), rows.bfloat16(), rows + 1, rows.flip(1)]
    assert not {keys[0]} & {samples(x)[0] for x in others}
    called: list[int] = []
    function = ReuseRows(lambda x: called.append(len(x)) or (x + 1, None), 10**6)
    for turn in (rows, rows[:3], rows[3:], rows):
        found = function(turn)
        torch.testing.assert_close(found[0], turn + 1, rtol=0, atol=0)
        assert found[1] is None
    assert called[0] == 3 and function.size == 2 * sum(called) * rows[0].nbytes
    broken = ReuseRows(lambda x: 1 / len(x[1:]), 10**6)
    for turn in (rows[:1], rows[:1]):
        with pytest.raises(ZeroDivisionError):
            broken(turn)
