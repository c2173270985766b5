"""Graphs of streams, frame by frame."""

import copy

import pytest
import torch
from torch import nn

from mmvidformer.export import StreamGraph, make_graph
from mmvidformer.models.horst.layer import VARIANTS
from mmvidformer.models.horst.statt import ATTENTIONS
from tests.export.recognizers import EARLY, NEXT, SIZE, TASKS, build, causal, stream


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
