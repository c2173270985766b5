"""What cannot run frame by frame."""

import pytest
import torch

from mmvidformer.models import FeatureFixationTransformer, TimeSformer, ViViT
from tests.models.test_streaming import BOUNDED, TIME, build
from tests.models.tiny import ARCH


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(block=[TIME, dict(pattern="time")]), "encoders.0: pattern "
         "'time' sees later frames; use causal_time, causal_joint or a pattern within frames"),
        (dict(block=[dict(pattern=("causal_time", "joint"))]), "encoders.0: pattern 'joint"),
        (dict(block=[dict(pattern="local")]), "pattern 'local' sees later frames"),
        (dict(block=[dict(pattern="strided")]), "pattern 'strided' sees later frames"),
        (dict(block=[dict(pattern=dict(type="window", size=(2, 2, 2)))]), "'window'.* later"),
        (dict(block=[{**TIME, "kernel": "cosformer"}]), "kernel 'cosformer' depends on the clip's "
         "length; use softmax or linear or capped or recurrence"),
        (dict(block=[dict(pattern="space", shifts=["temporal"])]), r"shifts \['temporal'\] read"),
        (dict(block=[dict(pattern="space")], cls="mean"), "encoders.0: the class token sees all"),
        (dict(encoders=[dict(block=[TIME]), dict(frames="average")]), "encoders.1: frames='av"),
        (dict(encoders=[dict(frames="pool"), dict()]), "encoders.1: pattern 'joint' sees"),
        (dict(block=[TIME], stem=dict(tubelet=(2, 8, 8), stride=(1, 8, 8))), "tubelets overlap"),
        (dict(block=[TIME], stem=dict(tubelet=(3, 8, 8), stride=(3, 8, 8), padding=(1, 0, 0))),
         "tubelets .* without padding"),
        (dict(block=[TIME], pool="mean"), "output is pooled over time; use pool='none'"),
    ],
)  # fmt: skip
def test_what_cannot_run_frame_by_frame_is_named(options: dict, message: str) -> None:
    model = build(**options)
    with pytest.raises(
        ValueError, match=f"VideoTransformer cannot run frame by frame: .*{message}"
    ) as error:
        model.step(torch.zeros(1, 3, 2, 16, 16))
    assert "\n" not in str(error.value) and len(str(error.value)) < 250


@pytest.mark.parametrize("kind", [ViViT, TimeSformer, FeatureFixationTransformer])
def test_the_models_of_the_papers_cannot(kind: type) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} cannot run frame by frame: "):
        kind(arch=ARCH, clip_len=4, img_size=32).step(torch.zeros(1, 3, 2, 32, 32))


def test_frames_that_do_not_fit_the_stream_are_named() -> None:
    model = build(block=[TIME], stem=dict(tubelet=(2, 8, 8)))
    with pytest.raises(ValueError, match="a step takes a multiple of 2 frames, got 3"):
        model.step(torch.zeros(1, 3, 3, 16, 16))
    _, state = model.step(torch.zeros(2, 3, 2, 16, 16))
    for shape in ((1, 3, 2, 16, 16), (2, 3, 2, 16, 32)):
        with pytest.raises(ValueError, match=r"must be \(B, C, H, W\) \(2, 3, 16, 16\), got \("):
            model.step(torch.zeros(shape), state)
    with pytest.raises(ValueError, match=r"a clip must have shape \(B, 3, T, H, W\)"):
        model.step(torch.zeros(1, 3, 16, 16))


@pytest.mark.parametrize("past", [1, 0, -3, 2.5, "8"])
def test_a_past_must_be_a_number_of_frames(past: object) -> None:
    with pytest.raises(ValueError, match="past must be an integer of at least 2, or None"):
        build(block=[dict(pattern=dict(type="causal_time", past=past))])


def test_sums_over_all_frames_cannot_forget() -> None:
    with pytest.raises(ValueError, match="'linear' cannot mask frames of the distant past, .*"
                       "'past': 4.*; use kernel softmax, capped$"):  # fmt: skip
        build(block=[{**BOUNDED, "kernel": "linear"}])
