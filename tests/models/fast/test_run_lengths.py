"""Tubelets that stay as they were are computed once: what that equals, and which models can."""

import pytest
import torch
from torch import Tensor, nn

from lab.attention_matrices import attention_matrices
from lab.receptive_field import receptive_field
from mmvidformer.apis.attention_rollout import rollout
from mmvidformer.layers.tokens import Tokens
from mmvidformer.models import ViViT
from mmvidformer.models.fast import run_lengths
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.run_lengths import (
    begins_run,
    find_runs,
    most_moving,
    share_computed,
    share_moving,
)
from tests.models.test_keep import COUNTING, JOINT, assert_same, build, noise

SIZE = dict(arch=dict(embed_dims=16, depth=2, num_heads=2), clip_len=4, img_size=16)


def still_video(seed: int = 1, frames: int = 6) -> Tensor:
    """Clips (2, 3, 6, 16, 16), three of whose 2 x 2 places stand still, some with noise."""
    clips = noise(2, 3, 1, 16, 16, seed=seed).repeat(1, 1, frames, 1, 1)
    clips[0, :, :, :8, :8] = noise(3, frames, 8, 8, seed=seed + 1)
    clips[1, :, 3:, 8:, :8] += 1
    clips += 0.01 * noise(*clips.shape, seed=seed + 2)
    return clips


def frozen(model: nn.Module, clips: Tensor, tolerance: float) -> Tensor:
    """The clip whose still tubelets are those of the beginning of their run."""
    frames = clips.clone()
    for row in (0, 8):
        for column in (0, 8):
            places = ..., slice(row, row + 8), slice(column, column + 8)
            for clip, video in enumerate(clips[places]):
                first = video[:, 0]
                for time in range(1, clips.shape[2]):
                    if (video[:, time] - first).abs().mean() > tolerance:
                        first = video[:, time]
                    frames[clip, :, time, places[1], places[2]] = first
    return frames


@pytest.mark.parametrize("name", JOINT)
def test_outputs_and_gradients_are_those_of_the_frozen_clip(name: str) -> None:
    model, clips = build(**JOINT[name]), still_video()
    still = frozen(model, clips, 0.1)
    assert (still != clips).any()
    expected = model(still)
    model.static = 0.1
    assert_same(model, model(clips), expected)
    tokens = [group.runs.kept.numbers.shape[1] for group in find_runs(model, clips, 0.1)]
    assert tokens == [5, 9]  # of 24
    with torch.no_grad():
        torch.testing.assert_close(optimize_for_inference(model)(clips), expected)


@pytest.mark.parametrize("kernel", COUNTING)
def test_single_precision(kernel: str) -> None:
    model, clips = build(**JOINT[kernel]).float(), still_video().float()
    expected = model(frozen(model, clips, 0.1))
    model.static = 0.1
    torch.testing.assert_close(model(clips), expected, rtol=1e-5, atol=1e-5)


def test_tokens_of_all_places_are_returned() -> None:
    model, clips = build(pool="none"), still_video()
    expected = model(frozen(model, clips, 0.1))
    model.static = 0.1
    assert expected.shape == (2, 6, 2, 2, 16)
    assert_same(model, model(clips), expected)


def test_features_and_those_of_blocks_have_all_places() -> None:
    model, clips, outputs = build(cls="mean"), still_video(), [[], []]
    expected = model.forward_features(frozen(model, clips, 0.1), outputs[0])
    model.static = 0.1
    found = model.forward_features(clips, outputs[1])
    assert found.context.grid == expected.context.grid and found.context.counts is None
    torch.testing.assert_close(found.tensor, expected.tensor)
    for after, block in zip(*outputs, strict=True):
        torch.testing.assert_close(block.tensor, after.tensor)
    torch.testing.assert_close(model.pool_features(found), model(clips))


def test_training_and_clips_of_several_lengths() -> None:
    model, clips = build(static=0.1).train(), still_video()
    valid = torch.ones(2, 6, dtype=torch.bool)
    valid[1, 4:] = False
    found = model(clips, valid=valid)
    plain = build()
    expected = [plain(frozen(plain, clips[:1], 0.1)), plain(frozen(plain, clips[1:, :, :4], 0.1))]
    torch.testing.assert_close(found, torch.cat(expected))
    model.static = None
    torch.testing.assert_close(model(clips), plain(clips))


def test_a_run_never_leaves_the_tolerance() -> None:
    """However slowly pixels change, they are compared with those that stand for them."""
    ramp = torch.arange(10.0)[None, :, None, None, None].expand(1, 10, 1, 1, 4)
    assert begins_run(ramp, 3.0).flatten().nonzero().flatten().tolist() == [0, 4, 8]
    assert begins_run(ramp, 0.0).all()
    assert begins_run(torch.zeros(1, 3, 1, 1, 4), 0.0).flatten().tolist() == [True, False, False]


def mixed_clips() -> Tensor:
    """Five clips: one moves, parts of two do, and two stand still."""
    moving = noise(1, 3, 6, 16, 16, seed=9)
    still = noise(1, 3, 1, 16, 16, seed=8).repeat(1, 1, 6, 1, 1)
    return torch.cat([moving, still_video(), still, still])


def test_no_clip_depends_on_the_others_of_its_batch() -> None:
    """One that moves is computed as it is, one that stands still is not."""
    model, clips = build(), mixed_clips()
    exact = model(clips)
    model.static = 0.1
    groups = find_runs(model, clips, 0.1)
    assert [group.rows for group in groups] == [[2, 3, 4], [1], [0]]
    assert [group.runs and group.runs.counts.shape[-1] for group in groups] == [5, 9, None]
    assert share_computed(groups) == pytest.approx((1 + 3 * 5 / 24 + 9 / 24) / 5)
    torch.testing.assert_close(model(clips), torch.cat([model(clip[None]) for clip in clips]))
    torch.testing.assert_close(model(clips)[0], exact[0])
    outputs: list[Tokens] = []
    end = model.forward_features(clips, outputs)
    for clip, row in enumerate(clips):
        alone: list[Tokens] = []
        torch.testing.assert_close(
            end.places[clip], model.forward_features(row[None], alone).places[0]
        )
        for block, own in zip(outputs, alone, strict=True):
            torch.testing.assert_close(block.places[clip], own.places[0])


def test_all_clips_that_move_are_one_group() -> None:
    """Also one that moves in other colors than the one that is looked at first."""
    model, clips = build(), mixed_clips()
    clips[2, 1:] = noise(2, 6, 16, 16, seed=5)
    groups = find_runs(model, clips, 0.1)
    assert [group.rows for group in groups] == [[3, 4], [1], [0, 2]]
    assert [group.runs is None for group in groups] == [False, False, True]


def test_gradients_of_groups() -> None:
    model, clips = build(), mixed_clips()
    model.static = 0.1
    whole, parts = model(clips), torch.cat([model(clip[None]) for clip in clips])
    assert_same(model, whole, parts)


def test_the_processes_of_a_sharded_model_run_equally_often(monkeypatch) -> None:
    """So all clips of a batch are together: as they are, if one of them moves."""
    monkeypatch.setattr(run_lengths, "is_sharded", lambda _: True)
    model, clips = build(), mixed_clips()
    expected = model(clips)
    model.static = 0.1
    assert torch.equal(model(clips), expected)
    ((rows, runs),) = find_runs(model, clips[1:], 0.1)
    assert rows == [0, 1, 2, 3] and runs.counts.shape[-1] == 9
    torch.testing.assert_close(
        model(clips[1:]), torch.cat([model(clip[None]) for clip in clips[1:]])
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_broken_frame_is_not_still(value: float) -> None:
    model, clips = build(static=0.1), still_video()[:1]
    clips[:, :, 3:5] = value
    assert model(clips).isnan().all()


def test_no_clips() -> None:
    model = build(static=0.1)
    assert model(torch.zeros(0, 3, 6, 16, 16).double()).shape == (0, 16)


@pytest.mark.parametrize("shape", [(3, 6, 16, 16), (2, 4, 6, 16, 16)])
def test_clips_of_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"a clip must have shape \(B, 3, T, H, W\), got"):
        build(static=0.1)(torch.zeros(shape).double())


@pytest.mark.parametrize("color", [0, 2])
def test_a_moving_camera_is_seen_in_one_color(color: int, monkeypatch) -> None:
    """Then whole tubelets are not compared; where it stands still in one color, they are."""
    model, clips = build(), noise(1, 3, 1, 16, 16, seed=1).repeat(1, 1, 6, 1, 1)
    clips[:, color] += noise(1, 6, 16, 16, seed=2)
    compared: list[Tensor] = []

    def begins(boxes: Tensor, tolerance: float) -> Tensor:
        compared.append(boxes)
        return begins_run(boxes, tolerance)

    monkeypatch.setattr(run_lengths, "begins_run", begins)
    assert [group.runs for group in find_runs(model, clips, 0.1)] == [None]
    assert len(compared) == (color != 0)


def test_the_share_that_moves_is_estimated() -> None:
    """Of the second clip, three of its four places move from the second frame on."""
    samples = torch.zeros(2, 4, 2, 2, 5)
    time = torch.arange(4.0)[:, None]
    samples[0, :, 0, 0] = time
    for row, column in ((0, 0), (0, 1), (1, 1)):
        samples[1, :, row, column] = time
    assert share_moving(samples, 0.5) == [(4 + 3) / 16, (4 + 3 * 3) / 16]
    assert share_moving(samples, 1.0) == [4 / 16, 4 / 16]


@pytest.mark.parametrize(
    ("arch", "share"),
    [
        (dict(embed_dims=768, depth=12, num_heads=12), 0.9482),
        (dict(embed_dims=128, depth=4, num_heads=4), 0.7547),
        (dict(embed_dims=32, depth=1, num_heads=2), 0.5),
    ],
)
def test_small_models_look_for_runs_where_less_moves(arch: dict[str, int], share: float) -> None:
    """0.95 minus 100 x 1,536 pixels / (12 blocks D^2)."""
    with torch.device("meta"):
        model = ViViT(arch, scheme="spacetime", clip_len=16, stem=dict(tubelet=(2, 16, 16)))
    assert most_moving(model) == pytest.approx(share, abs=1e-4)


def test_what_is_given_is_used() -> None:
    model, clips = build(), still_video()
    weight = torch.ones(2, 6, 2, 2).double()
    weight[:, 4:] = 0
    expected = model(clips[:, :, :4])
    model.static = 0.1
    torch.testing.assert_close(model(clips, counts=weight), expected)


def test_pictures_are_of_all_tubelets() -> None:
    """As those of the model without run lengths, which stays as it is."""
    plain, model, clips = build(cls="mean"), build(cls="mean", static=0.1), still_video()
    torch.testing.assert_close(rollout(model, clips).tokens, rollout(plain, clips).tokens)
    found, expected = (attention_matrices(x, clips)[0][1] for x in (model, plain))
    torch.testing.assert_close(found, expected)
    found, expected = (receptive_field(x, (6, 2, 2))[-1].tokens for x in (model, plain))
    torch.testing.assert_close(found, expected)
    assert model.static == 0.1


def test_padding_is_the_first_tubelet_again() -> None:
    """So that it changes neither the largest nor the least number of a clip, which int8 reads."""
    model, clips = build(), mixed_clips()
    (_, runs), *_ = find_runs(model, clips, 0.1)
    assert (runs.counts[:, 0, 0] > 0).sum(dim=1).tolist() == [5, 4, 4]
    assert runs.kept.numbers[1:, -1].tolist() == [0, 0]
    torch.testing.assert_close(runs.boxes[1:, 0, 0, -1], runs.boxes[1:, 0, 0, 0], rtol=0, atol=0)
    assert runs.counts.sum(dim=-1).flatten().tolist() == [24, 24, 24]


@pytest.mark.slow
def test_compiled() -> None:
    model, clips = build(static=0.1), still_video()
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(compiled(clips), model(clips))
