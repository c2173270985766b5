"""On which processors linear layers multiply in oneDNN."""

import pytest
import torch
from torch import nn

from mmvidformer import processor
from mmvidformer.models.fast import onednn
from mmvidformer.models.fast.onednn import CpuLinear, mkl_is_fast, mkl_is_slow


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Pretend to be a processor."""

    def run_on(vendor: str, flags: str) -> None:
        cpuinfo = tmp_path / "cpuinfo"
        core = f"vendor_id\t: {vendor}\nmodel name\t: a name\nflags\t\t: {flags}\n\n"
        cpuinfo.write_text(2 * core)
        monkeypatch.setattr(processor, "CPUINFO", cpuinfo)
        processor.read_facts.cache_clear()
        processor.processor_flags.cache_clear()

    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    yield run_on
    processor.read_facts.cache_clear()
    processor.processor_flags.cache_clear()


@pytest.mark.parametrize(
    ("vendor", "flags", "slow", "fast"),
    [
        ("AuthenticAMD", "avx2 avx512f", True, False),
        ("AuthenticAMD", "avx2", False, True),
        ("GenuineIntel", "avx2 avx512f", False, False),
        ("GenuineIntel", "avx2", False, False),
    ],
)
def test_mkl_is_slow_on_processors_of_amd_with_avx512(
    vendor: str, flags: str, slow: bool, fast: bool, pretend, monkeypatch
) -> None:
    pretend(vendor, flags)
    assert (mkl_is_slow(), mkl_is_fast()) == (slow, fast)
    assert processor.processor_name() == "a name"
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert not mkl_is_slow() and not mkl_is_fast()


@pytest.mark.skipif(not onednn.onednn_types(), reason="PyTorch was built without oneDNN")
@pytest.mark.parametrize("flags", ["avx2", "avx2 avx512f"])
def test_inference_multiplies_where_it_is_fast(flags: str, pretend, monkeypatch) -> None:
    pretend("AuthenticAMD", flags)
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    multiplied = []
    monkeypatch.setattr(onednn, "_multiply", lambda *args: multiplied.append(args) or layer(x))
    with torch.no_grad():
        torch.testing.assert_close(CpuLinear(layer, frozen=True)(x), layer(x))
    assert len(multiplied) == ("avx512f" in flags)
