"""Cost of data loading, and whether it keeps up with the model."""

import csv
from collections.abc import Callable
from types import ModuleType

import pytest

from mmvidformer.config import load_config


@pytest.fixture(scope="module")
def tool(load: Callable) -> ModuleType:
    return load("benchmark_data")


@pytest.mark.parametrize(
    "model, workers, cores, loader, suggested",
    [
        (10.0, 2, 8, 10.0, 3),  # 2 are just enough, one more is the reserve
        (10.0, 1, 8, 5.0, 3),
        (10.0, 0, 8, 5.0, 3),
        (10.0, 16, 2, 10.0, None),
        (0.1, 4, 4, 20.0, 1),
    ],
)
def test_rates_and_suggested_workers(tool, model, workers, cores, loader, suggested):
    costs = (("1 Decode", "worker", 150.0), ("2 Resize", "worker", 50.0), ("x", "main", 9.0))
    parts = [tool.Part(*cost) for cost in costs]
    assert tool.loading_rate(parts, workers, cores) == pytest.approx(loader)
    assert tool.suggest_workers(parts, model, cores) == suggested


@pytest.mark.parametrize("split", ["train", "test"])
def test_each_part_is_measured(main_of, make_config, tmp_path, capsys, split):
    config = make_config(split)
    main = main_of("benchmark_data")
    main(
        [str(config), "--split", split, "--samples", "3", "--out", str(tmp_path), "--model"]
        + ["--video-backend", "pyav"]
    )
    columns, *rows = csv.reader((tmp_path / "data.csv").open())
    assert columns == ["part", "process", "ms", "fraction"]
    names = ["annotation and the rest", "1 VideoInit", "2 SampleFrames", "3 VideoDecode"]
    names += ["4 Resize", "5 CenterCrop", "6 FormatShape", "7 PackActionInputs", "collate"]
    names += ["to the device, normalize", "total"]
    assert [row[0] for row in rows] == names
    costs = [float(row[2]) for row in rows]
    assert sum(costs[:-2]) == pytest.approx(costs[-1], abs=0.01)
    assert costs[names.index("3 VideoDecode")] > costs[names.index("2 SampleFrames")]
    printed = capsys.readouterr().out
    assert "0 workers load" in printed and "is the bottleneck." in printed


def test_wrapped_datasets_are_measured(tool, make_config):
    cfg = load_config(str(make_config("wrapped")))
    inner = cfg.train_dataloader.dataset
    repeated = dict(type="RepeatDataset", times=2, dataset=inner)
    cfg.train_dataloader.dataset = dict(type="ConcatDataset", datasets=[repeated, inner])
    single = load_config(str(make_config("single")))
    names, expected = ([p.name for p in tool.measure_loading(c, samples=3)] for c in (cfg, single))
    assert names == expected


def test_a_given_rate_of_the_model(main_of, make_config, capsys):
    main_of("benchmark_data")(
        [str(make_config("fast")), "--samples", "2", "--clips-per-second", "1e6"]
        + ["--workers", "1", "--cores", "2"]
    )
    printed = capsys.readouterr().out
    assert "the model processes 1000000.0: the dataloader is the bottleneck" in printed
    assert "2 cores are too few for more; the slowest part is" in printed


def test_a_config_without_the_dataloader(main_of, make_config):
    with pytest.raises(ValueError, match="the config has no val_dataloader"):
        main_of("benchmark_data")([str(make_config("none", val_dataloader=None)), "--split", "val"])
