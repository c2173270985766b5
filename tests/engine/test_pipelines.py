"""Rewriting the pipelines of a config."""

import pytest
from mmengine.config import Config

from mmvidformer import get_config
from mmvidformer.engine.pipelines import set_video_backend

SAMPLE = dict(type="SampleFrames", clip_len=4)


def config(*steps: dict) -> Config:
    inner = dict(type="VideoDataset", pipeline=list(steps))
    return Config(dict(test_dataloader=dict(dataset=dict(type="RepeatDataset", dataset=inner))))


@pytest.mark.parametrize(
    "steps, args",
    [
        ((dict(type="DecordInit"), dict(type="DecordDecode", mode="efficient")), {}),
        ((dict(type="mmaction.PyAVInit", num_threads=2), dict(type="mmaction.PyAVDecode")),
         dict(num_threads=2)),
        ((dict(type="OpenCVInit", io_backend="petrel", timeout=5), dict(type="OpenCVDecode")),
         dict(io_backend="petrel", timeout=5)),
        ((dict(type="mmvidformer.VideoInit", backend="decord", io_backend="http"),
          dict(type="mmvidformer.VideoDecode")), dict(io_backend="http")),
    ],
)  # fmt: skip
def test_decoders_are_replaced_wherever_they_stand(steps, args):
    cfg = config(steps[0], SAMPLE, steps[1])
    set_video_backend(cfg, "pyav")
    opening, sample, decode = cfg.test_dataloader.dataset.dataset.pipeline
    expected = dict(type="mmvidformer.VideoInit", backend="pyav")
    assert opening == {**expected, **args}
    assert sample == SAMPLE
    assert decode == dict(type="mmvidformer.VideoDecode")


def test_all_pipelines_of_a_shipped_config():
    cfg = get_config("timesformer_b_k400")
    set_video_backend(cfg, "decord")
    for split in ("train", "val", "test"):
        for pipeline in (cfg[f"{split}_pipeline"], cfg[f"{split}_dataloader"].dataset.pipeline):
            assert pipeline[0].backend == "decord"
            assert pipeline[2] == dict(type="mmvidformer.VideoDecode")


def test_a_config_without_videos_is_refused():
    with pytest.raises(ValueError, match="video backend 'pyav': no pipeline .*DecordInit"):
        set_video_backend(config(dict(type="RawFrameDecode")), "pyav")
