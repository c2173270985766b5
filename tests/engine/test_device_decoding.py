"""Pipelines of workers that hand on files, for the model's device."""

import copy
import sys
from types import SimpleNamespace

import pytest
import torch

from mmvidformer import get_config, list_models
from mmvidformer.config import leaf_datasets
from mmvidformer.config.building import building
from mmvidformer.engine.device_decoding import decode_on_device, hand_on_files
from mmvidformer.models.preprocessor import VideoDataPreprocessor
from mmvidformer.registry import TRANSFORMS
from tests.video import fake_torchcodec

PIPELINE = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=4),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 16)),
    dict(type="FormatShape", input_format="NCTHW", collapse=True),
    dict(type="PackActionInputs", meta_keys=("a",)),
]


@pytest.fixture
def torchcodec(monkeypatch):
    return fake_torchcodec.install(monkeypatch)


def runner_of(preprocessor=None, **policies) -> SimpleNamespace:
    """What the function asks of a runner; policies by split."""
    loaders = {f"_{split}_dataloader": None for split in ("train", "val", "test")}
    for split, policy in policies.items():
        dataset = dict(type="VideoDataset", pipeline=copy.deepcopy(PIPELINE))
        loaders[f"_{split}_dataloader"] = dict(
            dataset=dict(type="mmvidformer.SafeDataset", dataset=dataset, **policy)
        )
    preprocessor = preprocessor or VideoDataPreprocessor(format_shape="NCTHW")
    model = SimpleNamespace(module=SimpleNamespace(data_preprocessor=preprocessor))
    return SimpleNamespace(model=model, **loaders)


def test_steps_are_replaced() -> None:
    assert hand_on_files(PIPELINE) == [
        *PIPELINE[:2],
        dict(type="mmvidformer.DecodeLater"),
        PIPELINE[3],
        dict(
            type="mmvidformer.PackEncodedInputs",
            meta_keys=("a",),
            input_format="NCTHW",
            collapse=True,
        ),
    ]


def test_the_preprocessor_gets_the_strictest_policy(torchcodec) -> None:
    for policies, wanted in (
        (dict(train=dict(on_bad_video="resample", max_bad_share=0.2)), ("resample", 0.2)),
        (dict(train=dict(max_bad_share=0.2), val={}), ("resample", 0.05)),
        (dict(train={}, test=dict(on_bad_video="raise")), ("raise", 0.05)),
    ):
        runner = runner_of(**policies)
        decode_on_device(runner)
        decoder = runner.model.module.data_preprocessor.decoder
        assert (decoder.on_bad_video, decoder.max_bad_share) == wanted
        for split in policies:
            (leaf,) = leaf_datasets(getattr(runner, f"_{split}_dataloader")["dataset"])
            assert leaf["pipeline"] == hand_on_files(PIPELINE)


def test_what_is_missing_is_said_before_the_run(torchcodec, monkeypatch) -> None:
    with pytest.raises(ValueError, match="VideoDataPreprocessor, got Identity"):
        decode_on_device(runner_of(torch.nn.Identity(), train={}))
    monkeypatch.setattr(sys.modules["torchcodec"], "ffmpeg_major_version", None)
    with pytest.raises(ImportError, match="TorchCodec install torchcodec and FFmpeg"):
        decode_on_device(runner_of(train={}))


@pytest.mark.parametrize(
    ("place", "step", "text"),
    [
        (0, dict(type="DecordInit"), "takes VideoInit; --video-backend pyav puts it there; got De"),
        (0, dict(type="mmvidformer.VideoInit", backend="decord"), "pyav or torchcodec, got 'decor"),
        (2, dict(type="RawFrameDecode"), "to decode on the device takes VideoDecode"),
        (3, dict(type="ColorJitter"), "ColorJitter changes pixels.*data_preprocessor.augment"),
        (3, dict(type="Resize", scale=8, interpolation="area"), "by bilinear or nearest .* 'area'"),
        (4, dict(type="Flip"), "takes FormatShape; got"),
    ],
)
def test_pipelines_that_cannot_be_repeated_are_refused(place, step, text) -> None:
    pipeline = [step if number == place else old for number, old in enumerate(PIPELINE)]
    with pytest.raises(ValueError, match=text):
        hand_on_files(pipeline)


@pytest.mark.parametrize("name", ["timesformer_b_k400", "feature_fixation_k400", "vivit_fe_k400"])
def test_pipelines_of_shipped_configs(name) -> None:
    assert name in list_models()
    cfg = get_config(name)
    for split in ("train", "val", "test"):
        for leaf in leaf_datasets(cfg[f"{split}_dataloader"].dataset):
            steps = hand_on_files(leaf.pipeline)
            with building(cfg):
                built = [type(TRANSFORMS.build(step)).__name__ for step in steps]
            assert "DecodeLater" in built and built[-1] == "PackEncodedInputs"
