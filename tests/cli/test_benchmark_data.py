"""Cost of data loading, and whether it keeps up with the model."""

import copy
import csv

import pytest

from benchmarks import data_cost
from benchmarks.data_cost import measure_loading
from mmvidformer.config import load_config


@pytest.mark.parametrize("split", ["train", "test"])
def test_each_part_is_measured(main_of, make_config, tmp_path, capsys, split):
    config = make_config(split)
    main = main_of("benchmarks.data_loading")
    main(
        [str(config), "--split", split, "--samples", "3", "--out", str(tmp_path), "--model"]
        + ["--video-backend", "pyav"]
    )
    columns, *rows = csv.reader((tmp_path / "data.csv").open())
    assert columns == ["part", "process", "ms", "CPU ms", "fraction"]
    names = ["1 VideoInit", "2 SampleFrames", "3 VideoDecode", "4 Resize", "5 CenterCrop"]
    names += ["6 FormatShape", "7 PackActionInputs", "annotation and the rest", "collate"]
    names += ["to the device, " + "augment, " * (split == "train") + "normalize", "total"]
    assert [row[0] for row in rows] == names
    for column in (2, 3):
        costs = [float(row[column]) for row in rows]
        assert sum(costs[:-2]) == pytest.approx(costs[-1], abs=0.01)
    assert costs[names.index("3 VideoDecode")] > costs[names.index("2 SampleFrames")]
    printed = capsys.readouterr().out
    assert "0 workers load" in printed and "is the bottleneck." in printed


def test_wrapped_datasets_are_measured(make_config):
    cfg = load_config(str(make_config("wrapped")))
    inner = cfg.train_dataloader.dataset
    repeated = dict(type="RepeatDataset", times=2, dataset=inner)
    cfg.train_dataloader.dataset = dict(type="ConcatDataset", datasets=[repeated, inner])
    single = load_config(str(make_config("single")))
    measured = (measure_loading(c, samples=3)[0] for c in (cfg, single))
    names, expected = ([part.name for part in parts] for parts in measured)
    assert names == expected


def test_configs_take_turns(make_config, monkeypatch) -> None:
    """So that another load on the machine disturbs both alike."""
    turns = []
    load = data_cost._Timed.load
    monkeypatch.setattr(
        data_cost._Timed, "load", lambda self, i: (turns.append(id(self)), load(self, i))[1]
    )
    cfg = load_config(str(make_config("turns")))
    measured = data_cost.measure_loading(cfg, copy.deepcopy(cfg), samples=3)
    first, second = turns[:2]
    assert first != second and turns == [first, second] * 4
    assert [[part.name for part in parts] for parts in measured][0] == [
        part.name for part in measured[1]
    ]


def test_a_given_rate_of_the_model(main_of, make_config, capsys):
    main_of("benchmarks.data_loading")(
        [str(make_config("fast")), "--samples", "2", "--clips-per-second", "1e6"]
        + ["--workers", "1", "--cores", "2"]
    )
    printed = capsys.readouterr().out
    assert "the model processes 1000000.0: the dataloader is the bottleneck" in printed
    assert "2 cores are too few for more; the slowest part is" in printed


def test_a_config_without_the_dataloader(main_of, make_config):
    with pytest.raises(ValueError, match="the config has no val_dataloader"):
        main_of("benchmarks.data_loading")(
            [str(make_config("none", val_dataloader=None)), "--split", "val"]
        )


def test_mmaction_s_classes_and_the_cores_of_a_gpu(main_of, make_config, tmp_path, capsys):
    augment = [dict(type="mmvidformer.ClipColorJitter", p=1.0, brightness=0.5, hue=0.1)]
    preprocessor = dict(type="mmvidformer.VideoDataPreprocessor", augment=augment)
    config = make_config("compared", model=dict(data_preprocessor=preprocessor))
    options = ["--samples", "3", "--compare", "--tflops", "0.001", "--cores", "1000"]
    main_of("benchmarks.data_loading")([str(config), *options, "--out", str(tmp_path)])
    names = {}
    for table in ("data", "mmaction2"):
        with (tmp_path / f"{table}.csv").open() as file:
            names[table] = [row[0] for row in csv.reader(file)]
    assert not any("RandomApply" in name for name in names["data"])
    assert "6 RandomApply" in names["mmaction2"]
    printed = capsys.readouterr().out
    assert "A GPU of 0.001 TFLOP/s, 40% of it used, trains" in printed
    assert "cores (MMAction2)" in printed and "is the bottleneck." in printed


def test_the_comparison_is_for_training(main_of, make_config, capsys):
    with pytest.raises(SystemExit):
        main_of("benchmarks.data_loading")([str(make_config("t")), "--split", "test", "--compare"])
    assert "--compare and --tflops are for --split train" in capsys.readouterr().err
