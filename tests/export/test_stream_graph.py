"""Graphs of streams, frame by frame."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from mmvidformer.export import StreamGraph, export, make_card, make_graph
from mmvidformer.models.horst.layer import VARIANTS
from mmvidformer.models.horst.statt import ATTENTIONS
from tests.export.recognizers import EARLY, NEXT, SIZE, TASKS, build, causal, need_onnx, stream


@pytest.mark.parametrize("head", [EARLY, NEXT, dict(NEXT, classifier="unrolling")])
def test_clip_of_a_causal_recognizer_is_the_end_of_its_stream(head: dict) -> None:
    model = build(causal(head))
    anticipates = head is not EARLY
    graph = make_graph(model, SIZE, ahead=2 if anticipates else None)
    clip, states = torch.randn(2, *SIZE), None
    for frame in clip.unbind(2):
        output, states = model.stream(frame, states)
    with torch.no_grad():
        found = dict(zip(graph.output_names, graph(clip), strict=True))
        expected = model.cls_head(output, **({"ahead": [2]} if anticipates else {}))
    expected = {t: x[:, -1] for t, x in expected.items()} if anticipates else {"logits": expected}
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("head", [EARLY, NEXT, dict(NEXT, classifier="unrolling")])
def test_stream_graph_is_the_recognizers_stream(head: dict) -> None:
    model = build(stream(head, order=3))
    graph = make_graph(model, (3, 8, 8), ahead=2 if head is not EARLY else None)
    assert isinstance(graph, StreamGraph)
    frames = torch.randn(5, 2, 3, 8, 8)
    state, states = graph.start(2), None
    options = {} if head is EARLY else {"ahead": [2]}
    with torch.no_grad():
        for frame in frames:
            *logits, count, key, value, gate = graph(frame, *state)
            state = (count, key, value, gate)
            output, states = model.stream(frame, states)
            expected = model.cls_head(output, **options)
            expected = [expected] if head is EARLY else [expected[t][:, 0] for t in TASKS]
            torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    assert count.tolist() == [5, 5]


def test_a_model_in_training_stays_as_it_is() -> None:
    """The running statistics of its batch norms too."""
    model = build(stream(EARLY))
    model.backbone = nn.Sequential(model.backbone, nn.BatchNorm2d(4))
    before = copy.deepcopy(model.train().state_dict())
    make_graph(model, (3, 8, 8)).inputs(2, calls=2)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_count_of_zero_restarts_one_clip(variant: str, attention: str) -> None:
    model = build(stream(EARLY, order=3, variant=variant, attention=attention))
    graph = make_graph(model, (3, 8, 8))
    frames = torch.randn(6, 2, 3, 8, 8)
    state = (torch.zeros(2, dtype=torch.long), *(x + 100 for x in graph.start(2)[1:]))
    with torch.no_grad():
        for t, frame in enumerate(frames):
            if t == 2:
                state[0][1] = 0
            logits, *state = graph(frame, *state)
        for i, clip in enumerate((frames[:, :1], frames[2:, 1:])):
            features = model.extract_feat(clip.transpose(0, 1))[0]
            expected = model.cls_head(features)[0]
            torch.testing.assert_close(logits[i], expected, atol=1e-5, rtol=1e-5)


FRAMES = dict(type="mmvidformer.FramesHead", num_classes=3, in_channels=4)
STREAMS = {
    "bounded": [dict(pattern=dict(type="causal_time", past=3))],
    "held": [dict(pattern=dict(type="causal_time", past=3))],
    "convolutions": [dict(pattern=dict(type="causal_time", past=3))],
    "joint": [dict(pattern=dict(type="causal_joint", past=2))],
    "sink": [dict(pattern=dict(type="causal_joint", past=3))],
    "capped": [dict(pattern=dict(type="causal_time", past=3), kernel="capped")],
    "sums": [dict(pattern="causal_time", kernel="linear")],
    "recurrence": [dict(pattern="causal_time", kernel=dict(type="recurrence", width=3))],
}

# The table has 4 rows, and the last one is for all later frames.
POSITIONS = {"held": dict(type="space_time", hold_last=True)}
CLASS_TOKENS = {"sink": dict(cls="sink", pool="cls")}
STEMS = {"convolutions": dict(tubelet=(1, 2, 2), convs=(3, 4))}


def causal_with(name: str, head: dict) -> dict:
    cfg = causal(head)
    block = [*STREAMS[name], dict(pattern="space")]
    settings = dict(cfg["backbone"], block=block, positions=POSITIONS.get(name, "space"))
    settings |= dict(stem=STEMS.get(name, settings["stem"]), **CLASS_TOKENS.get(name, {}))
    return {**cfg, "backbone": settings}


@pytest.mark.parametrize("head", [EARLY, NEXT, FRAMES], ids=["early", "next", "frames"])
@pytest.mark.parametrize("name", STREAMS)
@torch.no_grad()
def test_causal_transformers(name: str, head: dict) -> None:
    """All steps are those of the recognizer's stream, and of the whole clip; they may restart."""
    model = build(causal_with(name, head))
    graph = make_graph(model, (3, 16, 16), ahead=2 if head is NEXT else None)
    clip, states, options = (
        torch.randn(2, 3, 7, 16, 16),
        None,
        {"ahead": [2]} if head is NEXT else {},
    )
    dirty = [x + 100 for x in graph.start(2)[1:]]  # a count of 0 hides it
    state = (graph.start(2)[0], *dirty)
    for number, frame in enumerate(clip.unbind(2), start=1):
        outputs = graph(frame, *state)
        logits, state = outputs[: -len(state)], outputs[-len(state) :]
        features, states = model.stream(frame, states)
        expected = model.cls_head(features, **options)
        whole = model.cls_head(model.extract_feat(clip[:, None, :, :number])[0], **options)
        if head is NEXT:
            expected, whole = ([x[task][:, -1] for task in TASKS] for x in (expected, whole))
        else:
            expected, whole = ([x[:, -1:] if head is FRAMES else x] for x in (expected, whole))
        torch.testing.assert_close([*logits], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close([*logits], whole, atol=1e-5, rtol=1e-5)
        assert state[0] == number


@torch.no_grad()
def test_two_encoders_and_a_table_that_bounds_the_past() -> None:
    """Names of the state number the causal attentions; single frames have none."""
    encoders = [
        dict(frames="pool", cls="mean", block=[dict(pattern="space")]),
        dict(block=[dict(pattern="causal_time")]),
    ]
    cfg = causal(EARLY)
    cfg["backbone"] = {**cfg["backbone"], "encoders": encoders, "positions": "space_time"}
    model = build(cfg)
    graph = make_graph(model, (3, 16, 16))
    assert graph.input_names == ["frame", "count", "key_0", "value_0"]
    clip, state = torch.randn(1, 3, 4, 16, 16), graph.start(1)
    for frame in clip.unbind(2):
        logits, *state = graph(frame, *state)
    torch.testing.assert_close(logits, model.cls_head(model.extract_feat(clip[:, None])[0]))


def test_a_state_that_grows_is_refused() -> None:
    cfg = causal_with("sums", EARLY)
    cfg["backbone"]["block"] = [dict(pattern="causal_time")]
    with pytest.raises(ValueError, match="grows with each frame; give causal patterns a past"):
        make_graph(build(cfg), (3, 16, 16))


FILES = [
    pytest.param(name, marks=() if name == "bounded" else pytest.mark.slow) for name in STREAMS
]


@pytest.mark.parametrize("name", FILES)
@torch.no_grad()
def test_one_file_runs_for_long(name: str, tmp_path: Path) -> None:
    """ONNX Runtime gives the classes of the whole clip after 300 frames, in a state of one size."""
    need_onnx()
    import onnxruntime

    model = build(causal_with(name, FRAMES))
    graph = make_graph(model, (3, 16, 16))
    path = tmp_path / "model.onnx"
    card = make_card(graph, name, [], {"class": ["a", "b", "c"]})
    assert export(graph, path, card) < 1e-5
    assert card["inputs"]["count"] == {"shape": [], "dtype": "int64"}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_outputs()]
    clip = torch.randn(1, 3, 300, 16, 16)
    state = {"count": np.zeros((), np.int64)}
    for node in session.get_inputs()[2:]:
        state[node.name] = np.zeros((1, *node.shape[1:]), np.float32)
    shapes = {name: value.shape for name, value in state.items()}
    logits = []
    for frame in clip.unbind(2):
        out = dict(zip(names, session.run(names, {"frame": frame.numpy(), **state}), strict=True))
        state = {name: out[f"next_{name}"] for name in state}
        logits.append(torch.from_numpy(out["logits"]))
    assert {name: value.shape for name, value in state.items()} == shapes
    whole = model.cls_head(model.extract_feat(clip[:, None])[0])
    streamed = torch.cat(logits, dim=1)
    if name == "sink":  # of a clip, its class token has the answer after the last frame
        streamed = streamed[:, -1:]
    torch.testing.assert_close(streamed, whole, atol=1e-5, rtol=1e-5)
