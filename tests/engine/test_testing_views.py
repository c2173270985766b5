"""Setting the views of a config."""

import shlex
from argparse import ArgumentParser, ArgumentTypeError

import pytest
from mmengine.config import Config, DictAction

from mmvidformer.engine.arguments import parse_views
from mmvidformer.engine.pipelines import check_views, get_views, set_views


def config(*crop: dict, resize: dict | None = None) -> Config:
    pipeline = [
        dict(type="SampleFrames", clip_len=4, num_clips=1, test_mode=True),
        dict(type="Resize", **(resize or dict(scale=(-1, 256)))),
        *crop,
        dict(type="FormatShape", input_format="NCTHW"),
    ]
    dataset = dict(type="RepeatDataset", dataset=dict(type="VideoDataset", pipeline=pipeline))
    return Config(dict(test_pipeline=pipeline, test_dataloader=dict(dataset=dataset)))


def both(cfg: Config) -> list:
    """The pipeline of the data loader; the top-level one must be the same."""
    assert cfg.test_dataloader.dataset.dataset.pipeline == cfg.test_pipeline
    return cfg.test_pipeline


@pytest.mark.parametrize("text, views", [("4x3", (4, 3)), ("1x1", (1, 1)), ("10x10", (10, 10))])
def test_parse_views(text, views):
    assert parse_views(text) == views


@pytest.mark.parametrize("text", ["4", "4x2", "0x3", "x3", "4x3x1", "-1x3"])
def test_wrong_views_are_named(text):
    with pytest.raises(ArgumentTypeError, match=f"must be CLIPSxCROPS .*got '{text}'"):
        parse_views(text)


@pytest.mark.parametrize("crops, name", [(1, "CenterCrop"), (3, "ThreeCrop"), (10, "TenCrop")])
def test_views_are_set_in_every_pipeline(crops, name):
    cfg = config(dict(type="mmaction.CenterCrop", crop_size=224))
    set_views(cfg, 4, crops)
    sampler, resize, crop, _ = both(cfg)
    assert sampler.num_clips == 4
    assert resize.scale == (-1, 256)
    assert crop["type"].rpartition(".")[2] == name and crop["crop_size"] == 224
    assert get_views(cfg) == (4, crops)
    set_views(cfg, 1, 1)
    assert get_views(cfg) == (1, 1)
    assert both(cfg)[2]["type"].removeprefix("mmaction.") == "CenterCrop"


def test_a_pipeline_without_crop_is_one_crop():
    cfg = config()
    set_views(cfg, 2, 1)
    assert get_views(cfg) == (2, 1)
    with pytest.raises(ValueError, match="ThreeCrop.*Resize, FormatShape; without, use 2x1 views"):
        set_views(cfg, 2, 3)


def test_a_network_that_joins_its_clips_keeps_them():
    """The segments of TSM and TSN, which are one view."""
    cfg = config(dict(type="CenterCrop", crop_size=224))
    for pipeline in (cfg.test_pipeline, cfg.test_dataloader.dataset.dataset.pipeline):
        pipeline[0].num_clips, pipeline[-1].input_format = 8, "NCHW"
    assert get_views(cfg) == (1, 1)
    set_views(cfg, 1, 3)
    assert both(cfg)[0].num_clips == 8 and get_views(cfg) == (1, 3)
    with pytest.raises(ValueError, match="joins its clips has one view of them: 1x3"):
        set_views(cfg, 4, 3)


def test_a_pipeline_without_sampler_is_refused():
    with pytest.raises(ValueError, match="must have a transform that samples; got CenterCrop"):
        set_views(Config(dict(test_pipeline=[dict(type="CenterCrop", crop_size=8)])), 2, 1)


def two_splits(*test_steps: dict) -> Config:
    """A config with validation of one center crop, and a test."""
    sampler = dict(type="SampleFrames", clip_len=4, num_clips=1, test_mode=True)
    resize, crop = dict(type="Resize", scale=(-1, 64)), dict(type="CenterCrop", crop_size=64)
    loaders = {
        f"{split}_dataloader": dict(dataset=dict(type="VideoDataset", pipeline=steps))
        for split, steps in (("val", [sampler, resize, crop]), ("test", [*test_steps]))
    }
    return Config(loaders)


CLIPS = dict(type="SampleFrames", clip_len=4, num_clips=4, test_mode=True)
THREE = dict(type="mmvidformer.ThreeCrop", crop_size=64)


def test_validation_and_test_may_differ_in_views() -> None:
    check_views(two_splits(CLIPS, dict(type="mmaction.Resize", scale=(-1, 64)), THREE))
    check_views(Config(dict(val_dataloader=None, test_dataloader=None)))


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        ([CLIPS, dict(type="Resize", scale=(80, 64)), THREE], r"1.scale is \(80, 64\), in val"),
        ([CLIPS, dict(type="Resize", scale=(-1, 64), keep_ratio=False), THREE], "keep_ratio is F"),
        ([CLIPS, dict(type="Resize", scale=(-1, 64)), {**THREE, "crop_size": 72}], "crop_size is"),
        ([CLIPS, dict(type="Resize", scale=(-1, 64))], "is SampleFrames, Resize, in validation"),
        ([{**CLIPS, "clip_len": 8}, dict(type="Resize", scale=(-1, 64)), THREE], "0.clip_len is 8"),
    ],
)
def test_other_differences_of_validation_and_test_are_named(steps, wrong) -> None:
    with pytest.raises(ValueError, match=f"prepare videos differently: test_dataloader.*{wrong}"):
        check_views(two_splits(*steps))


def test_the_options_that_are_told_make_validation_and_test_equal() -> None:
    """MMAction2's TimeSformer: frames of 256 pixels in validation, of 224 in the test."""
    resize = dict(type="Resize", scale=(-1, 56), interpolation="area")
    cfg = two_splits(CLIPS, resize, {**THREE, "crop_size": 56})
    with pytest.raises(ValueError) as error:
        check_views(cfg)
    _, options = str(error.value).split("add --cfg-options ")
    args = ArgumentParser()
    args.add_argument("--cfg-options", nargs="+", action=DictAction)
    changes = args.parse_args(["--cfg-options", *shlex.split(options)]).cfg_options
    cfg.merge_from_dict(changes)
    check_views(cfg)
    assert cfg.test_dataloader.dataset.pipeline[1].scale == (-1, 64)
    assert cfg.val_dataloader.dataset.pipeline[1].interpolation == "area"
