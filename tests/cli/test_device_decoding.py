"""Training and testing on clips that the model's device decodes."""

import json
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvidformer.video import encoded
from mmvidformer.video.errors import BadVideo
from tests.video import fake_torchcodec

CROPS = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=4, frame_interval=2, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 40)),
    dict(type="RandomCrop", size=32),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]
PREPROCESSOR = dict(data_preprocessor=dict(type="mmvidformer.VideoDataPreprocessor"))


@pytest.fixture(autouse=True)
def torchcodec(monkeypatch):
    return fake_torchcodec.install(monkeypatch)


def scalars(work_dir: Path, key: str) -> list[float]:
    """Of each step, from the logs of a run."""
    (log,) = work_dir.glob("*/vis_data/scalars.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line[key] for line in lines if key in line]


def test_losses_are_those_of_workers_that_decode(train, make_config, tmp_path) -> None:
    """But for the rounding of pixels. Other tools read the config as it is."""
    config = make_config(
        "device",
        train_dataloader=dict(batch_size=4, dataset=dict(pipeline=CROPS)),
        default_hooks=dict(logger=dict(interval=1)),
        log_processor=dict(window_size=1),
        model=PREPROCESSOR,
    )
    folders = [tmp_path / "workers", tmp_path / "device"]
    for folder, flags in zip(folders, ([], ["--decode-on-device"]), strict=True):
        options = ["--seed", "3", "--video-backend", "pyav"]
        train([str(config), "--work-dir", str(folder), *options, *flags])
    losses = [torch.tensor(scalars(folder, "loss")) for folder in folders]
    assert len(losses[0]) > 1
    torch.testing.assert_close(losses[1], losses[0], rtol=2e-2, atol=1e-3)
    assert scalars(folders[1], "acc/top1") == scalars(folders[0], "acc/top1") != []
    cfg = Config.fromfile(folders[1] / "device.py")
    assert cfg.train_dataloader.dataset.pipeline[-1].type == "PackActionInputs"


def test_a_video_that_is_bad_on_the_device_counts_as_wrong(
    test, make_config, model, tmp_path, torchcodec, monkeypatch
) -> None:
    """If the CPU cannot decode it either."""
    read = encoded.EncodedClip._decode_by

    def fail_on_second(clip, *arguments):
        if clip.name.endswith("val_1.mp4"):
            raise BadVideo(clip.name, "damaged in the middle")
        return read(clip, *arguments)

    policy = dict(on_bad_video="resample", max_bad_share=0.5)
    config = make_config("bad", bad_videos=policy, model=PREPROCESSOR)
    options = ["--video-backend", "pyav", "--decode-on-device"]
    metrics = []
    for name in ("good", "bad"):
        folder = tmp_path / name
        test([str(config), model[1], "--work-dir", str(folder), *options])
        metrics.append(json.loads((folder / "test_1x1_score.json").read_text())["metrics"])
        monkeypatch.setattr(encoded.EncodedClip, "_decode_by", fail_on_second)
    assert "bad_videos" not in metrics[0] and metrics[1]["bad_videos"] == 1
    assert metrics[1]["acc/top1"] <= metrics[0]["acc/top1"]
