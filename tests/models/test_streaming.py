"""Causal compositions frame by frame against the whole clip."""

import copy
import random

import pytest
import torch
from hypothesis import given, reject
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from mmvidformer.layers import KERNELS
from mmvidformer.layers.stream import StreamState
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from tests.models.tiny import ARCH, STEM, perturb, same_examples

FRAMES = 12
TIME = dict(pattern="causal_time")


def build(seed: int = 0, **options: object) -> VideoTransformer:
    """A model in evaluation mode whose weights are all far from zero."""
    torch.manual_seed(seed)
    settings = dict(arch=ARCH, clip_len=FRAMES, img_size=16, stem=STEM, pool="none")
    return perturb(VideoTransformer(**{**settings, **options}).eval())


@torch.no_grad()
def stream(model: nn.Module, clip: Tensor, sizes: list[int]) -> tuple[Tensor, list[StreamState]]:
    """Tokens of a clip (B, 3, T, H, W) in chunks of these numbers of frames, and the states."""
    outs, states, state = [], [], None
    for frames in clip.split(sizes, dim=2):
        out, state = model.step(frames, state)
        outs.append(out)
        states.append(state)
    return torch.cat(outs, dim=1), states


def chunks(frames: int, unit: int, seed: int) -> list[int]:
    """Random multiples of ``unit`` that sum to ``frames``."""
    draw, sizes = random.Random(seed), []
    while sum(sizes) < frames:
        sizes.append(min(unit * draw.randint(1, 4), frames - sum(sizes)))
    return sizes


def held(state: StreamState) -> int:
    """Bytes that a state keeps in memory."""
    return sum(x.untyped_storage().nbytes() for past in state.past for x in past)


def with_past(name: str) -> st.SearchStrategy:
    """A causal pattern; 20 frames are more than a clip has."""
    return st.sampled_from([name, *(dict(type=name, past=past) for past in (2, 3, 5, 20))])


PAST = st.one_of(with_past("causal_time"), with_past("causal_joint"))
WITHIN = [
    *("space", "width", "height"),
    dict(type="window", size=(1, 2, 2), shift=(0, 1, 1)),
    dict(type="window", size=(1, 1, 2)),
    dict(type="window", size=(1, 9, 9)),
]
ANYWHERE = dict(
    fixation=st.sampled_from(["qkv_shared", "qk"]),
    shifts=st.just(("spatial",)),
    fc=st.booleans(),
    shift_last=st.booleans(),
)


def sublayer(**fields: st.SearchStrategy) -> st.SearchStrategy:
    return st.fixed_dictionaries(fields, optional=ANYWHERE)


ANY = sorted(set(KERNELS) - {"recurrence"})  # which is causal
SUBLAYERS = st.one_of(
    sublayer(pattern=st.one_of(PAST, st.tuples(PAST, PAST), st.tuples(PAST, st.just("space")))),
    sublayer(
        pattern=st.sampled_from(["causal_time", "causal_joint", ("causal_time", "space")]),
        kernel=st.sampled_from(["linear", dict(type="linear", feature="elu")]),
    ),
    sublayer(
        pattern=st.sampled_from(WITHIN),
        kernel=st.sampled_from(ANY),
    ),
    sublayer(
        pattern=st.just("causal_time"),
        kernel=st.sampled_from(["recurrence", dict(type="recurrence", expand=2, width=2)]),
    ),
)
BLOCKS = st.lists(SUBLAYERS, min_size=1, max_size=3)
POSITIONS = [
    *("none", "space", "time", "space_time", "joint", dict(type="joint", fixed=True)),
    dict(type="joint", fixed="flat"),
]
TOGETHER = st.fixed_dictionaries(
    dict(block=BLOCKS, positions=st.sampled_from(POSITIONS)),
    optional=dict(
        depth=st.integers(1, 3),
        embed_dims=st.sampled_from([16, 32]),
        parallel=st.booleans(),
        rope=st.sampled_from(["dinov3", "eva02", dict(type="vjepa2", axes="th")]),
        qk_norm=st.just("rms"),
    ),
)
ALONE = st.fixed_dictionaries(
    dict(frames=st.just("pool"), block=st.just([dict(pattern="joint")])),
    optional=dict(cls=st.sampled_from([None, "mean", "global"]), depth=st.integers(1, 2)),
)
COMPOSITIONS = st.fixed_dictionaries(
    dict(
        encoders=st.one_of(
            st.lists(TOGETHER, min_size=1, max_size=2),
            st.tuples(ALONE, TOGETHER.filter(lambda row: "space" not in str(row["block"]))),
        ),
        stem=st.sampled_from(
            [STEM, dict(tubelet=(2, 4, 8)), dict(tubelet=(1, 8, 8), stride=(1, 7, 7), norm=True)]
        ),
    ),
    optional=dict(mlp=st.sampled_from(["mlp", dict(type="mlp", depthwise=True)])),
)


@pytest.mark.parametrize("count", [25, pytest.param(250, marks=pytest.mark.slow)])
def test_random_causal_compositions_stream_as_the_whole_clip(count: int) -> None:
    """In chunks, frame by frame, in both precisions; clips shorter and longer than the past."""

    @same_examples(count)
    @given(options=COMPOSITIONS, seed=st.integers(0, 999))
    def run(options: dict, seed: int) -> None:
        try:
            model = build(seed, **options)
        except ValueError as error:  # such as a kernel that cannot ignore the padding of a window
            assert "\n" not in str(error)
            reject()
        unit = model.embed.tubelet[0]
        for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
            model.to(dtype)
            clip = torch.randn(2, 3, FRAMES, 16, 16, dtype=dtype)
            with torch.no_grad():
                whole = model(clip)
                part = model(clip[:, :, :6])
            for sizes in ([unit] * (FRAMES // unit), chunks(FRAMES, unit, seed)):
                out, states = stream(model, clip, sizes)
                torch.testing.assert_close(out, whole, atol=tolerance, rtol=0)
                assert states[-1].steps == FRAMES // unit
            torch.testing.assert_close(whole[:, : 6 // unit], part, atol=tolerance, rtol=0)

    run()


SINKS = st.fixed_dictionaries(
    dict(
        block=st.lists(
            sublayer(
                pattern=st.one_of(PAST, st.tuples(PAST, PAST), st.sampled_from(["space", "width"])),
                kernel=st.sampled_from(["softmax", "capped"]),
            ),
            min_size=1,
            max_size=2,
        ),
        positions=st.sampled_from(POSITIONS),
    ),
    optional=dict(
        depth=st.integers(2, 3),
        registers=st.integers(1, 2),
        parallel=st.booleans(),
        rope=st.sampled_from(["vjepa2", dict(type="axial", axes="th")]),
    ),
)


@pytest.mark.parametrize("count", [15, pytest.param(150, marks=pytest.mark.slow)])
def test_a_sink_answers_after_each_frame_for_the_clip_so_far(count: int) -> None:
    """And no place reads it: the tokens are those of the model without a class token."""

    @same_examples(count)
    @given(options=SINKS, seed=st.integers(0, 999))
    def run(options: dict, seed: int) -> None:
        try:
            model = build(seed, **options, cls="sink", pool="cls").double()
        except ValueError as error:
            assert "\n" not in str(error)
            reject()
        clip = torch.randn(2, 3, FRAMES, 16, 16, dtype=torch.float64)
        with torch.no_grad():
            for sizes in ([1] * FRAMES, chunks(FRAMES, 1, seed)):
                state, seen = None, 0
                for frames in clip.split(sizes, dim=2):
                    answer, state = model.step(frames, state)
                    seen += frames.shape[2]
                    whole = model(clip[:, :, :seen])
                    torch.testing.assert_close(answer, whole, atol=1e-10, rtol=0)
            fast = optimize_for_inference(copy.deepcopy(model))
            torch.testing.assert_close(fast(clip), whole, atol=1e-10, rtol=0)
            without = {name: x for name, x in options.items() if name != "registers"}
            plain = build(seed, **without).double()
            plain.load_state_dict(model.state_dict(), strict=False)
            places = model.forward_features(clip).places
            torch.testing.assert_close(places, plain(clip), atol=1e-10, rtol=0)

    run()


def test_a_bounded_past_hides_older_frames() -> None:
    """One layer with past 3: a frame changes its own output and those of the next two."""
    block = [dict(pattern=dict(type="causal_joint", past=3))]
    model = build(arch={**ARCH, "depth": 1}, block=block, positions="none").double()
    clip = torch.randn(1, 3, 8, 16, 16, dtype=torch.float64)
    other = clip.clone()
    other[:, :, 2] += 1
    changed = (model(clip) - model(other)).abs().amax(dim=(0, 2, 3, 4)) > 0
    assert changed.tolist() == [False, False, True, True, True, False, False, False]


def test_states_are_results_that_later_steps_leave_alone() -> None:
    """A state can be resumed twice, and two streams do not mix."""
    block = [TIME, dict(pattern="causal_joint", kernel="linear")]
    model = build(block=block, positions="none").double()
    clips = torch.randn(2, 1, 3, 6, 16, 16, dtype=torch.float64)
    state = model.step(clips[0][:, :, :3])[1]
    kept = [x.clone() for past in state.past for x in past]
    found = [model.step(clip[:, :, 3:], state)[0] for clip in (clips[0], clips[1], clips[0])]
    torch.testing.assert_close(found[0], model(clips[0])[:, 3:], atol=1e-10, rtol=0)
    torch.testing.assert_close(found[0], found[2], atol=0, rtol=0)
    mixed = torch.cat([clips[0][:, :, :3], clips[1][:, :, 3:]], dim=2)
    torch.testing.assert_close(found[1], model(mixed)[:, 3:], atol=1e-10, rtol=0)
    for x, before in zip((x for past in state.past for x in past), kept, strict=True):
        torch.testing.assert_close(x, before, atol=0, rtol=0)
    assert state.steps == 3


BOUNDED = dict(pattern=dict(type="causal_time", past=4))


@pytest.mark.parametrize(
    "sublayer",
    [
        BOUNDED,
        dict(pattern=dict(type="causal_joint", past=3)),
        dict(pattern="causal_joint", kernel="linear"),
    ],
    ids=["time", "joint", "linear"],
)
def test_the_size_of_the_state_is_constant(sublayer: dict) -> None:
    model = build(block=[sublayer, dict(pattern="space")], positions="space")
    clip = torch.randn(2, 3, 40, 16, 16)
    states = stream(model, clip, [1] * 40)[1]
    shapes = [tree_map(lambda x: x.shape, state.past) for state in states]
    assert all(shape == shapes[0] for shape in shapes)
    sizes = [held(state) for state in states]
    assert len(set(sizes)) == 1
    after_chunks = [held(state) for state in stream(model, clip, [37, 1, 2])[1]]
    assert max(after_chunks) <= 2 * sizes[-1]


def test_a_table_of_positions_bounds_the_past() -> None:
    model = build(block=[TIME], positions="time")
    sizes = [held(state) for state in stream(model, torch.randn(1, 3, 9, 16, 16), [1] * 9)[1]]
    assert len(set(sizes)) == 1


def test_an_unbounded_past_grows_by_the_same_number_of_bytes_per_frame() -> None:
    model = build(block=[TIME], positions="none")
    sizes = [held(state) for state in stream(model, torch.randn(1, 3, 9, 16, 16), [1] * 9)[1]]
    per_frame = 2 * 2 * 4 * 16 * 4  # layers; keys and values; places; width; bytes
    assert sizes == [per_frame * frames for frames in range(1, 10)]


def test_a_model_optimized_for_inference_streams_the_same() -> None:
    encoders = [dict(frames="pool", cls="mean"), dict(block=[{**BOUNDED, "fc": True}])]
    model = build(encoders=encoders)
    fast, clip = optimize_for_inference(model), torch.randn(1, 3, FRAMES, 16, 16)
    out = stream(fast, clip, [1] * FRAMES)[0]
    torch.testing.assert_close(out, model(clip), atol=1e-5, rtol=0)


def test_gradients_flow_through_the_state() -> None:
    model = build(block=[BOUNDED, dict(pattern="causal_time", kernel="linear")]).double()
    clip = torch.randn(1, 3, 6, 16, 16, dtype=torch.float64, requires_grad=True)
    (whole,) = torch.autograd.grad(model(clip)[:, -1].square().sum(), clip)
    state = None
    for frame in clip.split(1, dim=2):
        out, state = model.step(frame, state)
    (found,) = torch.autograd.grad(out.square().sum(), clip)
    torch.testing.assert_close(found, whole, atol=1e-10, rtol=0)
    assert found[:, :, 0].abs().max() > 0


def test_under_autocast() -> None:
    model = build(block=[BOUNDED, dict(pattern="causal_time", kernel="linear")])
    clip = torch.randn(1, 3, 6, 16, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        out, states = stream(model, clip, [1] * 6)
        torch.testing.assert_close(out, model(clip), atol=0.05, rtol=0)
    assert [past[0].dtype for past in states[-1].past[:2]] == [torch.bfloat16, torch.float32]
