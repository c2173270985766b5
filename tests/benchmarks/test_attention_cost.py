"""Measurements of benchmarks/attention.py, except for the times."""

import csv
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from benchmarks.attention_cost import (
    KERNELS,
    Case,
    Cost,
    build,
    cases,
    fit_slope,
    growth,
    measure,
    out_of_memory,
)
from lab.papers.rows import find_published
from lab.papers.summary import size_of
from mmvidformer.apis.complexity import count, count_macs

ARCH = {"embed_dims": 64, "depth": 2, "num_heads": 2}


def test_slope_of_a_power() -> None:
    assert fit_slope([2, 4, 16], [3 * 2**1.5, 3 * 4**1.5, 3 * 16**1.5]) == pytest.approx(1.5)


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - {"recurrence"}))
@pytest.mark.parametrize("attention", ["joint", "time_space"])
@pytest.mark.parametrize("attention_only", [True, False])
def test_every_kernel_is_measured(kernel: str, attention: str, attention_only: bool) -> None:
    case = Case(kernel, attention, 2, 32, ARCH, batch=2, attention_only=attention_only)
    cost = measure(case, repeats=1, warmup=0)
    assert cost.tokens == 2 * 3 * 3
    assert cost.seconds > 0
    assert cost.cpu_seconds > 0
    assert cost.videos_per_second == pytest.approx(2 / cost.seconds)
    # At least queries, keys and values of the batch are allocated at the same time.
    assert cost.memory >= 3 * 2 * cost.tokens * 64 * 4


def test_macs_are_those_of_the_config() -> None:
    backbone = dict(type="mmvidformer.FeatureFixationTransformer", arch=ARCH, scheme="joint",
                    clip_len=2, img_size=32)  # fmt: skip
    head = dict(type="mmvidformer.TokenMlpHead", num_classes=174, in_channels=64)
    cfg = Config({"model": {"backbone": backbone, "cls_head": head}})
    cost = measure(Case("fixation", "joint", 2, 32, ARCH, batch=3), repeats=1, warmup=0)
    assert cost.macs == count(cfg).macs


@pytest.mark.parametrize(
    ("kernel", "row"),
    [
        ("fixation", "ours"),
        ("gated_orthoformer", "orthoformer"),
        ("gated_softmax", "softmax"),
    ],
)
def test_kernels_of_table_8_are_its_rows(kernel: str, row: str) -> None:
    module, clip, _ = build(Case(kernel, frames=32, size=336), "meta")
    size = size_of(find_published(f"feature_fixation/table8/{row}_32x336"))
    assert tuple(clip.shape[1:]) == size.shape
    assert sum(p.numel() for p in module.parameters()) == size.parameters
    assert count_macs(module, clip) == size.macs


@pytest.mark.parametrize("kernel", ["fixation", "linear", "performer", "cosformer"])
def test_joint_linear_attention_grows_linearly(kernel: str) -> None:
    """With 8 times as many tokens, memory and MACs grow linearly; the MACs of softmax do not."""
    planned = cases([kernel, "softmax"], ["joint"], [4, 32], [64], arch=ARCH, attention_only=True)
    costs = [measure(case, repeats=1, warmup=0) for case in planned]
    linear, softmax = growth(costs)
    assert (linear.kernel, softmax.kernel, linear.factor) == (kernel, "softmax", 8)
    assert linear.memory < 1.1
    assert linear.macs == pytest.approx(1, abs=0.01)
    assert softmax.macs > 1.5


def test_cases_go_from_small_to_large() -> None:
    planned = cases(["linear"], ["joint"], [16, 4], [32, 64], batch=5)
    assert [(c.frames, c.size) for c in planned] == [(4, 32), (16, 32), (4, 64), (16, 64)]
    assert {c.batch for c in planned} == {5}


def test_out_of_memory_is_a_result() -> None:
    # Larger than what malloc may have kept of earlier tests, which the limit does not count.
    case = Case("linear", "joint", 8192, 1024, ARCH, attention_only=True)
    cost = measure(case, repeats=1, warmup=0, memory_limit=2**20)
    assert [cost.seconds, cost.cpu_seconds, cost.memory, cost.videos_per_second] == [None] * 4
    assert cost.tokens == 8192 * 74**2
    assert cost.macs > 0
    assert torch.zeros(2**24).sum() == 0  # the limit is gone


def test_other_errors_are_raised() -> None:
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("shapes do not match"))
    with pytest.raises(KeyError, match="nystrom.*orthoformer"):
        build(Case("nystrom"), "meta")


def test_growth_of_each_cost() -> None:
    case = Case("linear", "joint", 4, 32, ARCH)
    costs = [Cost(case, n, n, n**2.0, n**3.0, 5) for n in (2, 8)]
    (found,) = growth(costs)
    assert (found.factor, found.time, found.cpu_time) == pytest.approx((4, 2, 3))
    assert (found.memory, found.macs) == pytest.approx((0, 1), abs=1e-9)


def test_growth_needs_two_sizes() -> None:
    case = Case("linear", "joint", 4, 32, ARCH)
    costs = [Cost(case, 36, 10, 0.1, 0.1, 100), Cost(case, 72, 20)]
    assert list(growth(costs)) == []


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    planned = cases(["linear"], ["joint"], [4, 32], [64], arch=ARCH, attention_only=True)
    costs = [measure(case, "cuda", torch.bfloat16, repeats=3) for case in planned]
    assert next(growth(costs)).memory < 1.1
    vast = Case("linear", "joint", 4, 32, ARCH, batch=2**24, attention_only=True)
    assert measure(vast, "cuda", repeats=1).seconds is None


def test_the_page_quotes_the_files() -> None:
    reports = Path(__file__).parents[2] / "reports"
    page = (reports / "speed.md").read_text()

    def rows(name: str) -> list[list[str]]:
        with open(reports / "benchmark" / f"{name}.csv", newline="") as file:
            return list(csv.reader(file))[1:]

    table = [f"| {kernel} | {' | '.join(r)} |" for _, kernel, _, *r in rows("attention_cpu_growth")]
    assert len(table) == 8 and "\n".join(table) in page
    kept = [f"{cpu} (`{kernel}`)" for _, kernel, _, _, cpu, *_ in rows("attention_cpu_kept_growth")]
    assert len(kept) == 2 and " and ".join(kept) in " ".join(page.split())
