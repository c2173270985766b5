"""Transforms that stand in for MMAction2's give what MMAction2's give, on frames of a video."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from mmaction.registry import TRANSFORMS as THEIRS

from mmvidformer import get_config, list_models
from mmvidformer.apis.pipeline import inference_transforms
from mmvidformer.catalog import TRANSFORMS
from mmvidformer.config.shipped import PACKAGE
from mmvidformer.data.transforms import of_mmaction
from mmvidformer.video.video import Video

VIDEO = PACKAGE / "weights" / "camera_motion.mp4"
BOXES = np.array([[3, 5, 60, 70], [-9, 0, 500, 20]], np.float32)


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    return np.stack([*Video.open(str(VIDEO)).get_batch(range(4)).asnumpy()])


def apply(registry: Any, steps: list[dict], sample: dict) -> dict:
    sample = copy.deepcopy(sample)
    for step in steps:
        sample = registry.build(dict(step))(sample)
    return sample


def check_equal(sample: dict, expected: dict, *left_out: str) -> None:
    assert sample.keys() - {*left_out} == expected.keys() - {*left_out}
    for key in expected.keys() - {*left_out}:
        np.testing.assert_array_equal(sample[key], expected[key], err_msg=key)


@pytest.mark.parametrize("total", [1, 7, 16, 63, 64, 65, 300])
@pytest.mark.parametrize("fps", [None, 24.0, 29.97])
@pytest.mark.parametrize(
    "options",
    [
        dict(type="SampleFrames", clip_len=8, frame_interval=2),
        dict(type="SampleFrames", clip_len=8, frame_interval=8, num_clips=3),
        dict(type="SampleFrames", clip_len=16, frame_interval=4, num_clips=4, target_fps=25),
        dict(type="SampleFrames", clip_len=8, target_fps=30, out_of_bound_opt="repeat_last"),
        dict(type="SampleFrames", clip_len=1, num_clips=5),
        dict(type="UniformSample", clip_len=16, num_clips=2),
        dict(type="UniformSample", clip_len=8),
    ],
)
def test_samplers(total: int, fps: float | None, options: dict) -> None:
    steps = [dict(**options, test_mode=True)]
    sample = dict(total_frames=total, avg_fps=fps, start_index=1)
    expected = apply(THEIRS, steps, sample)
    found = apply(TRANSFORMS, steps, sample)
    check_equal(found, expected)
    assert found["frame_inds"].dtype == expected["frame_inds"].dtype


CROPS = [
    [dict(type="Resize", scale=(-1, 50)), dict(type="CenterCrop", crop_size=48)],
    [dict(type="Resize", scale=(90, 40)), dict(type="CenterCrop", crop_size=(40, 32))],
    [dict(type="Resize", scale=(31, 47), keep_ratio=False, interpolation="bicubic")],
    [dict(type="Resize", scale=(-1, 48), interpolation="area")],
    [dict(type="Resize", scale=(-1, 200), interpolation="lanczos")],
]


@pytest.mark.parametrize("steps", CROPS)
@pytest.mark.parametrize("upright", [False, True])
def test_frames_and_boxes(steps: list[dict], upright: bool, frames: np.ndarray) -> None:
    images = [*(frames.swapaxes(1, 2) if upright else frames)]
    sample = dict(imgs=images, img_shape=images[0].shape[:2], gt_bboxes=BOXES, proposals=BOXES)
    check_equal(apply(TRANSFORMS, steps, sample), apply(THEIRS, steps, sample))


@pytest.mark.parametrize("upright", [False, True])
def test_three_crops(upright: bool, frames: np.ndarray) -> None:
    steps = [dict(type="Resize", scale=(-1, 49)), dict(type="ThreeCrop", crop_size=49)]
    images = [*(frames.swapaxes(1, 2) if upright else frames)]
    sample = dict(imgs=images, img_shape=images[0].shape[:2])
    check_equal(apply(TRANSFORMS, steps, sample), apply(THEIRS, steps, sample))


@pytest.mark.parametrize("shape", ["NCTHW", "NCHW"])
@pytest.mark.parametrize("clips", [1, 2])
@pytest.mark.parametrize("boxes", [False, True])
def test_packing(shape: str, clips: int, boxes: bool, frames: np.ndarray) -> None:
    steps = [
        dict(type="ArrayDecode"),
        dict(type="FormatShape", input_format=shape),
        dict(type="PackActionInputs", meta_keys=("img_shape", "clip_len", "lacks")),
    ]
    sample = dict(array=frames, frame_inds=np.array([0, 3, 1, 2]), modality="RGB", label=2)
    sample |= dict(num_clips=clips, clip_len=4 // clips)
    if boxes:
        sample |= dict(gt_bboxes=BOXES, gt_labels=np.ones((2, 3)), proposals=BOXES)
    found, expected = (apply(registry, steps, sample) for registry in (TRANSFORMS, THEIRS))
    assert torch.equal(found["inputs"], expected["inputs"])
    ours, theirs = found["data_samples"], expected["data_samples"]
    assert torch.equal(ours.gt_label, theirs.gt_label)
    assert (ours.img_shape, ours.clip_len) == (theirs.img_shape, theirs.clip_len)
    assert "lacks" not in ours and ("gt_instances" in ours) == boxes
    if boxes:
        for name in ("bboxes", "labels"):
            assert torch.equal(ours.gt_instances[name], theirs.gt_instances[name])
        assert torch.equal(ours.proposals.bboxes, theirs.proposals.bboxes)


def test_what_they_do_not_have_is_mmactions() -> None:
    """Training draws clips, keypoints and lazy crops are MMAction2's."""
    for options in (
        dict(type="SampleFrames", clip_len=4),
        dict(type="SampleFrames", clip_len=4, test_mode=True, twice_sample=True),
        dict(type="Resize", scale=(-1, 64), lazy=True),
        dict(type="Resize", scale=0.5),
        dict(type="FormatShape", input_format="NCTHW_Heatmap"),
        dict(type="PackActionInputs", collect_keys=("imgs",)),
    ):
        assert type(TRANSFORMS.build(options)).__module__.startswith("mmaction."), options


def test_shipped_test_pipelines_need_no_others() -> None:
    """But folders of pictures, and AVA's lists."""
    names = set()
    for name in list_models():
        for step in inference_transforms(get_config(name)):
            part = TRANSFORMS.find(step["type"])
            if part is None:
                names.add(step["type"])
            elif part.__module__ == of_mmaction.__name__:
                part(**{key: value for key, value in step.items() if key != "type"})
    assert names <= {"RawFrameDecode", "ImageDecode", "SampleAVAFrames"}
