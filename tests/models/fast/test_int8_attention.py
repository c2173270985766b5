"""Attention of models of 8 bits: in bfloat16 if there are many keys."""

from functools import partial
from typing import Any

import pytest
import torch

import mmvidformer
from mmvidformer.layers.kernels import SoftmaxKernel
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast import onednn

pytestmark = pytest.mark.skipif(
    not onednn.onednn_types(), reason="PyTorch was built without oneDNN"
)


@torch.no_grad()
@pytest.mark.parametrize("has", [True, False])
def test_models_of_8_bits_attend_in_bfloat16_to_many_keys(has: bool, monkeypatch) -> None:
    monkeypatch.setattr(onednn, "multiplies_bfloat16", lambda: has)
    monkeypatch.setattr(onednn, "LEAST_KEYS", 8)
    kernel, types = SoftmaxKernel(8).eval(), []
    q, x = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 8, 8)

    def run(q: torch.Tensor, *others: Any) -> torch.Tensor:
        types.append(q.dtype)
        return kernel(q, *others)

    attend = partial(onednn.attend_in_bfloat16, kernel, run)
    out = attend(q, x, x)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, kernel(q, x, x), atol=2e-2, rtol=2e-2)
    attend(q, x[..., :7, :], x[..., :7, :])
    attend(q, x, x, torch.arange(8)[None] < 5)
    with torch.enable_grad():
        attend(q, x, x)
    assert types == [torch.bfloat16 if has else torch.float32, *[torch.float32] * 3]


@torch.no_grad()
def test_only_8_bits_attend_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(onednn, "LEAST_KEYS", 4)
    types, forward = set(), SoftmaxKernel.forward

    def record(kernel: SoftmaxKernel, q: torch.Tensor, *others: Any) -> torch.Tensor:
        types.add(q.dtype)
        return forward(kernel, q, *others)

    monkeypatch.setattr(SoftmaxKernel, "forward", record)
    arch = dict(embed_dims=32, depth=1, num_heads=2)
    model = VideoTransformer(arch=arch, img_size=32, clip_len=4, block=[dict(pattern="joint")])
    clip = torch.randn(1, 3, 4, 32, 32)
    for int8, dtype in ((False, torch.float32), (True, torch.bfloat16)):
        types.clear()
        mmvidformer.optimize_for_inference(model, int8=int8)(clip)
        assert types == {dtype}
