"""Colour jitter of a clip against MMAction2's wrapper of torchvision's."""

import numpy as np
import pytest
import torch
from mmengine.registry import init_default_scope

from mmvidformer.datasets.transforms import ClipColorJitter
from mmvidformer.registry import TRANSFORMS

ALL = dict(brightness=0.125, contrast=0.4, saturation=0.4, hue=0.2)


def frames() -> list[np.ndarray]:
    """The same smooth colours twice, so that a change alike shows, and noise."""
    ramp = np.linspace(0, 255, 24 * 20 * 3).reshape(24, 20, 3).astype(np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8)
    return [ramp, ramp.copy(), noise]


@pytest.mark.parametrize("changes", [{name: value} for name, value in ALL.items()] + [ALL])
@pytest.mark.parametrize("seed", range(3))
def test_frames_are_those_of_the_wrapper(changes, seed):
    init_default_scope("mmaction")
    wrapper = TRANSFORMS.build(dict(type="TorchVisionWrapper", op="ColorJitter", **changes))
    reached = []
    for transform in (wrapper, ClipColorJitter(**changes)):
        torch.manual_seed(seed)
        reached.append(transform(dict(imgs=frames()))["imgs"])
    theirs, ours = (np.stack(images).astype(int) for images in reached)
    assert reached[1][0].dtype == np.uint8 and reached[1][0].flags.c_contiguous
    assert abs(theirs - ours).max() <= 1
    np.testing.assert_array_equal(ours[0], ours[1])
    assert abs(ours - np.stack(frames())).max() > 1
