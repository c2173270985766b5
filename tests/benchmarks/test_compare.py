"""The benchmark against baselines: which models, equal outputs, floors; not the times."""

import csv
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import descendants, models, timing
from benchmarks.baselines import Entry, build_entries
from benchmarks.compare import Result, Settings, check_equal, compare, measure_peak
from benchmarks.descendants import CONFIGS
from benchmarks.page import (
    COLUMNS,
    fill_page,
    row_of,
    write_results,
)
from benchmarks.timing import copy_rate, matmul_rate, time_call
from benchmarks.transformers_models import scheme_of
from mmvidformer import get_config

ARCH = {"embed_dims": 32, "depth": 2, "num_heads": 2}
SIZE = {"arch": ARCH, "img_size": 32, "clip_len": 4}
TIMESFORMER = {"type": "mmvidformer.TimeSformer", "stem": {"tubelet": (1, 8, 8)}, **SIZE}
VIVIT = {"type": "mmvidformer.ViViT", "stem": {"tubelet": (2, 8, 8)}, **SIZE}
FIXATION = {"type": "mmvidformer.FeatureFixationTransformer", **SIZE}
OF_FRAMES = {"type": "mmvidformer.VideoTransformer", "stem": {"tubelet": (1, 8, 8)}, **SIZE}
VIDEOMAE = {
    **OF_FRAMES,
    "stem": {"tubelet": (2, 8, 8)},
    "positions": {"type": "joint", "fixed": "flat"},
    "qkv_bias": "qv",
    "fc_norm": {"type": "layer", "eps": 1e-5},
    "frozen_stages": 2,
}
VJEPA2 = {
    **OF_FRAMES,
    "arch": {**ARCH, "embed_dims": 48},
    "stem": {"tubelet": (2, 8, 8)},
    "positions": "none",
    "rope": "vjepa2",
    "pool": "none",
}
CAPPED = {"type": "capped", "cap": 50.0}
VIDEOPRISM = {
    **OF_FRAMES,
    "encoders": [
        {
            "depth": depth,
            "block": [{"pattern": axis, "kernel": CAPPED}],
            "positions": {"type": axis, "rule": "bilinear"},
        }
        for axis, depth in (("space", 2), ("time", 1))
    ],
    "pool": "none",
}
ATTENTIVE = {"type": "mmvidformer.AttentiveHead", "num_classes": 7, "num_heads": 2}
QUICK = Settings(repeats=1, warmup=0, memory=False)

OURS = ["mmvidformer", "mmvidformer optimized"]
TIMM = ["timm, frame by frame"]


@pytest.fixture(autouse=True)
def small_floors(monkeypatch) -> None:
    """Floors are not what is tested."""
    monkeypatch.setitem(timing.SIDES, "cpu", 256)
    monkeypatch.setitem(timing.COPY, "cpu", 2**20)


def recognizer(backbone: dict, **options: object) -> dict:
    head = {"type": "TimeSformerHead", "num_classes": 7, "in_channels": 32}
    if backbone is FIXATION:
        head["type"] = "mmvidformer.TokenMlpHead"
    return {"backbone": {**backbone, **options}, "cls_head": head}


@pytest.mark.parametrize(
    "backbone, options, baselines",
    [
        (TIMESFORMER, {}, ["MMAction2", "HuggingFace"]),
        (TIMESFORMER, {"scheme": "joint_space_time"}, ["MMAction2", "HuggingFace"]),
        (TIMESFORMER, {"scheme": "space_only"}, ["MMAction2"]),
        (TIMESFORMER, {"scheme": "axial"}, []),
        (TIMESFORMER, {"reverse": True}, []),
        (TIMESFORMER, {"cls_in_time": True}, []),
        (TIMESFORMER, {"positions": "space"}, []),
        (VIVIT, {"scheme": "spacetime"}, ["HuggingFace"]),
        (VIVIT, {"scheme": "spacetime", "pool": "mean"}, []),
        (VIVIT, {}, []),
        (FIXATION, {}, []),
    ],
)
def test_baselines_that_have_the_model(backbone: dict, options: dict, baselines: list) -> None:
    entries = list(build_entries(recognizer(backbone, **options)))
    assert [entry.name for entry in entries] == [*OURS, *baselines, *TIMM]
    assert [entry.comparable for entry in entries] == [True] * (2 + len(baselines)) + [False]
    check_equal(entries, torch.randn(2, 3, 4, 32, 32))


@pytest.mark.parametrize(
    "backbone, head",
    [
        (VIDEOMAE, {"type": "TimeSformerHead", "num_classes": 7}),
        (VJEPA2, {**ATTENTIVE, "depth": 1, "norm": {"type": "layer", "eps": 1e-2}}),
        (VIDEOPRISM, {**ATTENTIVE, "pooling": "videoprism"}),
    ],
)
def test_encoders_of_transformers(backbone: dict, head: dict) -> None:
    """With the same weights, all of which are trained."""
    width = backbone["arch"]["embed_dims"]
    model = {"backbone": backbone, "cls_head": {**head, "in_channels": width}}
    entries = list(build_entries(model))
    assert [entry.name for entry in entries] == [*OURS, "HuggingFace", *TIMM]
    check_equal(entries, torch.randn(2, 3, 4, 32, 32))
    assert all(parameter.requires_grad for parameter in entries[0].module.parameters())


@pytest.mark.parametrize("name", CONFIGS)
def test_descendants_are_in_transformers(name: str) -> None:
    assert scheme_of(get_config(name).model.backbone) is not None


def test_descendants_run_inference_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    monkeypatch.setattr(models, "measure", lambda args, command: runs.append(args))
    descendants.main(["--out", "x", "--threads", "1"])
    (args,) = runs
    assert args.configs == [*CONFIGS] and args.passes == ["inference"] and args.threads == 1
    assert args.optimize and args.without == TIMM
    optimized = list(build_entries(recognizer(VIVIT), trained=False))[1]
    assert optimized.name == OURS[1] and optimized.trained is None


def test_no_weights_are_zero() -> None:
    ours = next(build_entries(recognizer(TIMESFORMER)))
    assert all(parameter.any() for parameter in ours.module.parameters())


def test_other_outputs_are_refused() -> None:
    first, *_, theirs = list(build_entries(recognizer(TIMESFORMER)))[:4]
    with torch.no_grad():
        theirs.module.model.classifier.bias.add_(0.1)
    with pytest.raises(ValueError, match="the logits of HuggingFace and mmvidformer differ"):
        check_equal([first, theirs], torch.randn(1, 3, 4, 32, 32))
    broken = Entry("broken", nn.Identity(), lambda clip: torch.full((1, 7), torch.nan))
    with pytest.raises(ValueError, match="the logits of broken and mmvidformer differ by nan"):
        check_equal([first, broken], torch.randn(1, 3, 4, 32, 32))


def test_results_are_consistent() -> None:
    results = compare(recognizer(TIMESFORMER), QUICK)
    names = [*OURS, "MMAction2", "HuggingFace", *TIMM]
    inference, training = results[:5], results[5:]
    assert [r.model for r in inference] == [r.model for r in training] == names
    assert [result.phase for result in results] == ["inference"] * 5 + ["training"] * 5
    for result in results:
        assert result.seconds * result.clips_per_second == pytest.approx(1)
        assert result.cpu_seconds > 0 and result.peak is None
    assert inference[1].ratio == inference[1].cpu_ratio == training[1].ratio == 1
    assert inference[2].ratio == pytest.approx(inference[2].seconds / inference[1].seconds)
    assert inference[1].macs < inference[0].macs == inference[2].macs == training[1].macs
    assert training[0].matmul_floor > 2 * inference[0].matmul_floor > 0
    assert training[0].copy_floor == pytest.approx(3 * inference[0].copy_floor, rel=1)


def test_batch_and_bf16() -> None:
    settings = Settings(
        repeats=1, warmup=0, memory=False, batch=3, dtype=torch.bfloat16, optimize=False
    )
    results = compare(recognizer(VIVIT), settings, ["inference"])
    assert [r.model for r in results] == [OURS[0], *TIMM]
    assert results[0].seconds * results[0].clips_per_second == pytest.approx(3)


def test_peak_of_training_includes_gradients_and_activations() -> None:
    model = recognizer(TIMESFORMER)
    inference, training = (
        measure_peak(model, OURS[0], k, QUICK) for k in ("inference", "training")
    )
    gradients = 4 * sum(p.numel() for p in next(build_entries(model)).module.parameters())
    assert training > inference + gradients / 2
    tokens = 4 * 4 * 4 * 32 * 4
    assert inference >= 4 * tokens


@pytest.mark.slow
def test_peak_is_measured_in_another_process() -> None:
    settings = Settings(repeats=1, warmup=0, optimize=False)
    (ours, _) = compare(recognizer(VIVIT), settings, ["inference"])
    assert ours.peak == pytest.approx(
        measure_peak(recognizer(VIVIT), OURS[0], "inference", settings), rel=0.1
    )


def test_recurrent_models_are_refused() -> None:
    with pytest.raises(ValueError, match="RecurrentRecognizer is recurrent; .*benchmarks.horst"):
        next(build_entries({"type": "mmvidformer.RecurrentRecognizer"}))


def test_rates_and_times() -> None:
    assert matmul_rate("cpu", torch.float32, 1) > 1e8
    assert copy_rate("cpu", 1) > 1e7
    seconds, cpu_seconds = time_call(lambda: sum(range(10**6)), "cpu")
    assert seconds > 0 and cpu_seconds > 0


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    settings = Settings("cuda", torch.bfloat16, repeats=2)
    for result in compare(recognizer(TIMESFORMER), settings):
        assert result.seconds > 0 and result.peak > 0


@pytest.mark.parametrize("name", ["docs/benchmark.md", "reports/speed.md"])
def test_pages_are_written_from_the_files(name: str) -> None:
    page = Path(__file__).parents[2] / name
    assert fill_page(page.read_text(), page.parent) == page.read_text()


def test_a_page_without_marks() -> None:
    with pytest.raises(ValueError, match="must contain a mark"):
        fill_page("# Page", Path())


def test_baselines_are_relative_to_the_plain_model_and_to_the_optimized(tmp_path: Path) -> None:
    measured = {"mmvidformer": (1.2, 8.0), "mmvidformer optimized": (1.0, 4.0), "Other": (1.5, 6.0)}
    rows = [
        Result(name, kind, ratio, ratio, ratio, ratio, ratio, 1.0, int(peak * 2**20), 1, 1.0, 1.0)
        for kind in ("inference", "training")
        for name, (ratio, peak) in measured.items()
        if kind == "inference" or name != "mmvidformer optimized"
    ]
    write_results(tmp_path / "both", [row_of("net", row) for row in rows], {})
    mark = "<!-- baselines: both -->\n"
    page = fill_page(f"{mark}old\n<!-- end of benchmark -->", tmp_path)
    assert page.splitlines()[1:-1] == [
        "| config | pass | ms of mmvidformer | Other |",
        "| --- | --- | --- | --- |",
        "| `net` | inference, plain | 1200.0 | 1.25 x time, 0.75 x memory |",
        "| `net` | inference, optimized | 1000.0 | 1.50 x time, 1.50 x memory |",
        "| `net` | training, plain | 1200.0 | 1.25 x time, 0.75 x memory |",
    ]


def test_columns_of_the_files_are_known() -> None:
    folder = Path(__file__).parents[2] / "reports" / "benchmark"
    about = {path: json.loads(path.read_text()) for path in folder.glob("*.json")}
    files = [path for path in about if "benchmarks.models" in about[path].get("command", "")]
    assert len(files) > 9
    older = [name for name in COLUMNS if name != "least CPU ms"]
    for path in files:
        with open(path.with_suffix(".csv"), newline="") as file:
            header = next(csv.reader(file))
        assert header in (list(COLUMNS), older)
