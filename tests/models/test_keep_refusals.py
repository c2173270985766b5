"""What cannot leave out tokens, or count them, says so."""

import pytest
import torch

from mmvidformer.layers import Places
from mmvidformer.models import FeatureFixationTransformer, VideoTransformer
from tests.models.tiny import ARCH, SIZE, STEM

KEEP = Places(torch.tensor([[0, 3]]), (2, 2))
KEEP_OF_CLIP = Places(torch.tensor([[0, 3]]), (4, 2, 2))
WEIGHT = torch.ones(1, 4, 2, 2)
SHIFTED = dict(type="window", size=(2, 2, 2), shift=(1, 1, 1))
SHIFTS = dict(block=[dict(shifts=["temporal"])])


@pytest.mark.filterwarnings("ignore:.*nothing is shifted")
@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (dict(block=[dict(pattern="width")]), dict(kept=KEEP),
         "pattern 'width' needs all places of a frame; leave none out"),
        (dict(block=[dict(pattern="time")]), dict(kept=KEEP_OF_CLIP),
         "pattern 'time' needs tokens in frames; leave out the same places in all frames"),
        (dict(frames="pool"), dict(kept=KEEP_OF_CLIP), "frames='pool' needs tokens in frames"),
        (SHIFTS, dict(kept=KEEP), "shift 'temporal' needs all places"),
        (SHIFTS, dict(counts=WEIGHT), "shift 'temporal' cannot count a token several times or"),
        (dict(block=[dict(kernel="cosformer")]), dict(counts=WEIGHT), "kernel 'cosformer' cannot"),
        (dict(block=[dict(kernel="lara")]), dict(counts=WEIGHT), "kernel 'lara' cannot count"),
        (dict(block=[dict(pattern="causal_time")]), dict(counts=WEIGHT), "pattern 'causal_time' c"),
        (dict(block=[dict(pattern=SHIFTED)], cls="mean"), dict(counts=WEIGHT),
         r"pattern .*shift.* with cls='mean' cannot count"),
        (dict(mlp=dict(type="mlp", depthwise=True)), dict(counts=WEIGHT), "depthwise=True cannot"),
        ({}, dict(counts=WEIGHT[:, :2]),
         r"counts must be \(B, T, H, W\) = \(1, 4, 2, 2\), as the tokens, got \(1, 2, 2, 2\)"),
        ({}, dict(kept=Places(KEEP.numbers, (4, 4))), r"places must be of \(2, 2\) or \(4, 2, 2\)"),
        ({}, dict(kept=KEEP, valid=torch.ones(1, 4).bool()), "cannot be used with valid"),
    ],
)  # fmt: skip
def test_what_cannot_says_so(options: dict, given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        VideoTransformer(**SIZE, stem=STEM, **options)(torch.zeros(1, 3, 4, 16, 16), **given)
    assert "\n" not in str(error.value)


def test_overlapping_tubelets_cannot_be_left_out() -> None:
    model = FeatureFixationTransformer(ARCH, img_size=16, clip_len=4)
    with pytest.raises(ValueError, match=r"if tubelets do not overlap.*padding \(0, 8, 8\)"):
        model.embed(torch.zeros(1, 3, 4, 16, 16), KEEP)
