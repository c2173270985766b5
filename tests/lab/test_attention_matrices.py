"""Attention weights of a block: matrices of any kernel, and their picture."""

import pytest
import torch

from lab.attention_matrices import attention_matrices, draw_matrices
from mmvidformer.layers import KERNELS
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, ViViT

ARCH = dict(embed_dims=16, depth=2, num_heads=2)
SMALL = dict(arch=ARCH, img_size=8, clip_len=4)


def fixation(**options: object) -> torch.nn.Module:
    torch.manual_seed(0)
    stem = dict(tubelet=(1, 4, 4))
    return FeatureFixationTransformer(**SMALL, stem=stem, **options).eval()


def clip() -> torch.Tensor:
    return torch.randn(1, 3, 4, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - {"recurrence"}))
def test_the_weights_of_any_kernel_give_its_output(kernel: str) -> None:
    model, seen = fixation(kernel=kernel), []
    block = model.encoders[0].blocks[1]
    for sub in block.sublayers.values():
        sub.attn.kernel.register_forward_hook(lambda kernel, x, out: seen.append((x[2], out)))
    found = attention_matrices(model, clip(), layer=1)
    assert [name for name, _ in found] == list(block.sublayers)
    assert [weights.shape for _, weights in found] == [(4, 2, 4, 4), (4, 2, 4, 4)]
    for (_, weights), (v, out) in zip(found, seen[:2], strict=True):
        torch.testing.assert_close(weights @ v, out, rtol=1e-4, atol=1e-5)


def test_softmax_weights_by_hand_and_a_class_token() -> None:
    torch.manual_seed(0)
    model = TimeSformer(**SMALL, stem=dict(tubelet=(1, 4, 4))).eval()
    inputs = []
    block = model.encoders[0].blocks[0]
    time, space = block.sublayers.values()
    time.attn.register_forward_pre_hook(lambda module, args: inputs.append(args))
    found = attention_matrices(model, clip(), layer=0)
    assert [weights.shape for _, weights in found] == [(4, 2, 4, 4), (4, 2, 5, 5)]
    q, k, _ = time.attn.project(*inputs[0][:2])
    q, k = (x[0].unflatten(0, (4, -1)).permute(1, 2, 0, 3) for x in (q, k))  # (H*W, n, T, d)
    expected = (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1)
    torch.testing.assert_close(found[0][1], expected)


def test_patterns_that_share_the_heads_have_a_matrix_each() -> None:
    torch.manual_seed(0)
    stem = dict(tubelet=(1, 4, 4))
    model = ViViT(**SMALL, scheme="factorized_dot_product", stem=stem).eval()
    shapes = [weights.shape for _, weights in attention_matrices(model, clip())]
    assert shapes == [(4, 1, 4, 4), (4, 1, 4, 4)]


def test_the_picture_shows_the_chosen_group_and_head() -> None:
    found = attention_matrices(fixation(), clip())
    mean, single = draw_matrices(found, title="a clip"), draw_matrices(found, group=1, head=0)
    images = [
        [axes.images[0].get_array() for axes in f.axes if axes.images] for f in (mean, single)
    ]
    for (_, weights), average, chosen in zip(found, *images, strict=True):
        assert torch.equal(torch.as_tensor(average.data), weights[2].mean(0))
        assert torch.equal(torch.as_tensor(chosen.data), weights[1, 0])
    assert "group 2 of 4" in single.axes[0].get_title()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": 4}, "group must be from 0 to 3 in .*, got 4"),
        ({"head": 2}, "head must be from 0 to 1"),
    ],
)
def test_wrong_indices_are_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_matrices(attention_matrices(fixation(), clip()), **options)


def test_a_wrong_layer_is_named() -> None:
    with pytest.raises(ValueError, match="layer must be an index of the 2 blocks of Feature.*: 2"):
        attention_matrices(fixation(), clip(), layer=2)
