"""The command speed: variants of a model, their times and answers."""

import json
from pathlib import Path

import cv2
import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis.speed import Variant, as_batches, measure
from mmvidformer.cli.speed import with_random_weights


def test_variants_on_a_video(main_of, model, tiny_videos, tmp_path: Path, capsys) -> None:
    figures, picture = tmp_path / "speed.json", tmp_path / "speed.png"
    options = ["--clips", "2", "--rounds", "1", "--json", str(figures), "--plot", str(picture)]
    main_of("speed")([*model, str(tiny_videos.root / "val_0.mp4"), "--device", "cpu", *options])
    rows = {row["name"]: row for row in json.loads(figures.read_text())}
    ran = ["plain", "optimized", "bfloat16", "int8"]
    assert list(rows) == [*ran, "run lengths", "int8, run lengths"]
    for name in ran:
        assert rows[name]["answers"] == 1 and rows[name]["seconds"] > 0
    assert rows["plain"]["difference"] == 0
    assert 0 < rows["optimized"]["difference"] < 1e-5 < rows["int8"]["difference"] < 0.1
    assert rows["int8"]["weight_bytes"] < rows["optimized"]["weight_bytes"]
    assert rows["int8"]["note"].startswith("largest error of a layer: ")
    assert "frames='pool' needs tokens in frames" in rows["run lengths"]["note"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["variant", "ms/clip", "faster", "weights", "changed", "scores"]
    assert printed[5].startswith("run lengths       cannot run: ")
    assert cv2.imread(str(picture)).std() > 5


def test_still_parts(main_of, tmp_path: Path, tiny_videos, capsys) -> None:
    """The model in the package, on a video whose frames are the same."""
    video = str(tiny_videos.root / "val_0.mp4")
    main_of("speed")(["camera_motion", video, "--device", "cpu", "--rounds", "1", "--static", "9"])
    (line,) = (row for row in capsys.readouterr().out.splitlines() if row.startswith("run leng"))
    assert "of the tokens; " in line


def test_noise_without_weights(main_of, model, capsys) -> None:
    options = ["--random", "--clips", "1", "--rounds", "1", "--device", "cpu"]
    start = "model.backbone.init_from.source=timm:not_fetched"
    main_of("speed")([model[0], *options, "--cfg-options", start])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["variant", "plain", "optimized", "bfloat16", "int8"]  # nothing is still
    with pytest.raises(SystemExit):
        main_of("speed")([*model, *options])


def test_random_weights_come_from_nowhere() -> None:
    starts = dict(init_from="timm:vit", pretrained="https://x/y.pth", init_cfg=dict(checkpoint="z"))
    cfg = Config(dict(model=dict(backbone=dict(type="TimeSformer", **starts))))
    random = with_random_weights(cfg).model.backbone
    assert random == {"type": "TimeSformer", **dict.fromkeys(starts)}
    assert cfg.model.backbone.pretrained == starts["pretrained"]


def test_what_fails_says_why() -> None:
    class Broken(torch.nn.Module):
        backbone = cls_head = torch.nn.Identity()

        def test_step(self, data: dict) -> list:
            raise RuntimeError("no such operator\nmore lines")

    plain, optimized = measure(Broken(), as_batches([dict(data_samples=0)]), 1, None, False)
    assert isinstance(plain, Variant) and plain.row() == dict(name="plain", note="no such operator")
    assert optimized.note == "not for Identity"
