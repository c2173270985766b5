import torch

from benchmarks.memory import peak_memory


def test_peak_is_what_is_allocated_at_the_same_time() -> None:
    """Two tensors of 4 kB, then one after they are freed; the input does not count."""

    def call(x: torch.Tensor) -> torch.Tensor:
        first = x + 1
        second = first * 2
        del first
        del second
        return x - 1

    # The constants are tensors of a few bytes.
    assert 2 * 4096 <= peak_memory(call, torch.zeros(1024)) < 2 * 4096 + 100


def test_peak_includes_temporary_memory_of_operators() -> None:
    """A matrix multiplication copies expanded matrices first."""
    left, right = torch.rand(64, 32, 32), torch.rand(1, 32, 32).expand(64, 32, 32)
    assert peak_memory(lambda x: x.sum(), left) < 64 * 32 * 32 * 4
    assert peak_memory(lambda x: torch.bmm(x.transpose(1, 2), right), left) >= 64 * 32 * 32 * 4
