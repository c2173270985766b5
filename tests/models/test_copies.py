"""Models are pickled, saved whole and copied, with the same outputs."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from tests.models.tiny import ARCH, STEM, perturb

SIZE = dict(arch=ARCH, clip_len=4, img_size=32)
MODELS: dict[str, Callable[[], nn.Module]] = {
    "vivit": lambda: ViViT(**SIZE),
    "timesformer": lambda: TimeSformer(**SIZE),
    "fixation": lambda: FeatureFixationTransformer(**SIZE),
    "composed": lambda: VideoTransformer(
        **SIZE, stem=STEM, block=[dict(pattern="window", shifts=["spatial_cross"])], norm="rms"
    ),
    "optimized": lambda: optimize_for_inference(TimeSformer(**SIZE)),
}


def saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)  # a whole model is code


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), saved, copy.deepcopy])
def test_a_copy_gives_the_same(name: str, again: Callable) -> None:
    torch.manual_seed(0)
    model = perturb(MODELS[name]().eval())
    clip = torch.randn(1, 3, 4, 32, 32)
    with torch.no_grad():
        expected = model(clip)
        other = again(model)
        torch.testing.assert_close(other(clip), expected, atol=0, rtol=0)
        for weight in model.parameters():
            weight.zero_()
        torch.testing.assert_close(other(clip), expected, atol=0, rtol=0)
