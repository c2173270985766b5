"""On which processors shipped configs train in oneDNN."""

import pytest
import torch

from mmvidformer.models import cpu_training


@pytest.mark.parametrize(("vendor", "slow"), [("AuthenticAMD", True), ("GenuineIntel", False)])
def test_mkl_is_slow_on_processors_of_amd(vendor: str, slow: bool, tmp_path, monkeypatch) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: a name\n")
    monkeypatch.setattr(cpu_training, "CPUINFO", cpuinfo)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert cpu_training.mkl_is_slow() is slow
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert not cpu_training.mkl_is_slow()
