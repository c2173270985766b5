"""What loading costs, and whether it keeps up."""

import csv

import pytest

from mmvidformer.analysis.data_loading import Part, judge

PARTS = [
    Part("1 Decode", "worker", 150.0),
    Part("2 Resize", "worker", 50.0),
    Part("x", "main", 9.0),
]


@pytest.mark.parametrize(
    "model, workers, cores, loader, limit, suggested",
    [
        (10.0, 2, 8, 10.0, "model", 3),  # 2 are just enough, one more is the reserve
        (10.0, 1, 8, 5.0, "loader", 3),
        (10.0, 0, 8, 5.0, "loader", 3),
        (10.0, 16, 2, 10.0, "model", None),
        (0.1, 4, 4, 20.0, "model", 1),
    ],
)
def test_workers_against_model(model, workers, cores, loader, limit, suggested):
    verdict = judge(PARTS, model, workers, cores)
    assert verdict.loader == pytest.approx(loader)
    assert (verdict.limit, verdict.suggested) == (limit, suggested)


@pytest.mark.parametrize("split", ["train", "test"])
def test_each_part_is_measured(main_of, make_config, tmp_path, capsys, split):
    config = make_config(split)
    main = main_of("benchmark_data")
    main(
        [str(config), "--split", split, "--samples", "3", "--out", str(tmp_path), "--model"]
        + ["--video-backend", "pyav"]
    )
    columns, *rows = csv.reader((tmp_path / "data.csv").open())
    assert columns == ["part", "place", "ms", "share"]
    names = ["annotation and the rest", "1 VideoInit", "2 SampleFrames", "3 VideoDecode"]
    names += ["4 Resize", "5 CenterCrop", "6 FormatShape", "7 PackActionInputs", "collate"]
    names += ["to the device, normalise", "whole sample"]
    assert [row[0] for row in rows] == names
    costs = [float(row[2]) for row in rows]
    assert sum(costs[:-2]) == pytest.approx(costs[-1], abs=0.01)
    assert costs[names.index("3 VideoDecode")] > costs[names.index("2 SampleFrames")]
    assert (tmp_path / "data.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "0 workers give" in printed and "is the limit." in printed


def test_a_rate_from_elsewhere(main_of, make_config, capsys):
    main_of("benchmark_data")(
        [str(make_config("fast")), "--samples", "2", "--clips-per-second", "1e6", "--workers", "1"]
    )
    printed = capsys.readouterr().out
    assert "the model takes 1000000.0: the loader is the limit" in printed
    assert "the costliest part is" in printed


def test_a_config_without_loader_is_told(main_of, make_config):
    with pytest.raises(ValueError, match="no val_dataloader"):
        main_of("benchmark_data")([str(make_config("none", val_dataloader=None)), "--split", "val"])
