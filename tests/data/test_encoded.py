"""Clips that are decoded later, against those that workers decode."""

import logging

import numpy as np
import pytest
import torch
from mmengine.dataset import Compose

from mmvidformer.data.shards.dataset import ShardedVideoDataset
from mmvidformer.data.workers import set_seed
from mmvidformer.engine.device_decoding import hand_on_files
from mmvidformer.tasks.shards import shard_list
from mmvidformer.video import encoded
from mmvidformer.video.encoded import EncodedClip, crop_of, places_of
from mmvidformer.video.errors import BadVideo
from tests.video import fake_torchcodec
from tests.video.numbered_videos import needs_torchcodec
from tests.video.numbered_videos import write as write_numbered
from tests.video.toys import write, write_clock

pytestmark = pytest.mark.usefixtures("scope")

OPEN = dict(type="mmvidformer.VideoInit")
SAMPLE = dict(type="SampleFrames", clip_len=4, frame_interval=2)
DECODE = dict(type="mmvidformer.VideoDecode")
CLIPS = dict(type="FormatShape", input_format="NCTHW")
PACK = dict(type="PackActionInputs")
CPU = torch.device("cpu")
CROPS = {  # by name: transforms that resize at most once
    "none": [],
    "center": [dict(type="Resize", scale=(-1, 20)), dict(type="CenterCrop", crop_size=16)],
    "larger": [dict(type="Resize", scale=(-1, 50)), dict(type="RandomCrop", size=32)],
    "random": [
        dict(type="RandomResizedCrop"),
        dict(type="Resize", scale=(18, 14), keep_ratio=False),
        dict(type="Flip", flip_ratio=0.5),
    ],
    "three": [dict(type="Resize", scale=(-1, 16)), dict(type="ThreeCrop", crop_size=16)],
    "ten": [dict(type="TenCrop", crop_size=12)],
    "jitter": [dict(type="mmvidformer.ScaleJitter", short_side=20, crop_size=16)],
    "rescale": [
        dict(type="mmvidformer.InverseRescale", scale_range=(18, 30)),
        dict(type="RandomCrop", size=16),
    ],
    "scales": [
        dict(type="MultiScaleCrop", input_size=16, scales=(1, 0.8)),
        dict(type="Resize", scale=(16, 16), keep_ratio=False),
    ],
    "halved": [dict(type="Resize", scale=(20, 12), keep_ratio=False)],
    "lazy": [
        dict(type="RandomResizedCrop", lazy=True),
        dict(type="Resize", scale=(16, 16), keep_ratio=False, lazy=True),
        dict(type="Flip", flip_ratio=0.5, lazy=True),
        dict(type="Fuse"),
    ],
}


@pytest.fixture(autouse=True)
def torchcodec(request, monkeypatch):
    """A stand-in, but where a GPU decodes."""
    if request.node.get_closest_marker("gpu") is None:
        return fake_torchcodec.install(monkeypatch)
    return None


def sample_of(path, pipeline, **facts) -> dict:
    facts = {"start_index": 0, "modality": "RGB", "label": 3, **facts}
    return Compose(pipeline)(dict(filename=str(path), **facts))


def both(path, crops, sampling=SAMPLE, pack=CLIPS, seed=0, **facts) -> tuple[dict, dict]:
    """A sample that is decoded now, and the one that is decoded later."""
    pipeline = [OPEN, sampling, DECODE, *crops, pack, PACK]
    samples = []
    for steps in (pipeline, hand_on_files(pipeline)):
        set_seed(seed)
        samples.append(sample_of(path, steps, **facts))
    return samples[0], samples[1]


def assert_near(pixels, wanted, levels=1) -> None:
    assert pixels.dtype == wanted.dtype == torch.uint8
    assert pixels.shape == wanted.shape
    assert (pixels.int() - wanted.int()).abs().max() <= levels


@pytest.mark.parametrize("name", CROPS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pixels_are_those_of_a_worker(tmp_path, name, seed) -> None:
    """Noise, whose neighbors differ most; the tolerance is one level."""
    write(tmp_path / "a.mp4", 30, (40, 28))
    now, later = both(tmp_path / "a.mp4", CROPS[name], seed=seed)
    clip = later["inputs"]
    assert isinstance(clip, EncodedClip) and clip.shape == now["inputs"].shape
    assert_near(clip.decode(CPU), now["inputs"])
    assert later["data_samples"].gt_label == now["data_samples"].gt_label
    assert later["data_samples"].img_shape == now["data_samples"].img_shape


def test_without_resizing_pixels_are_the_same(tmp_path) -> None:
    write(tmp_path / "a.mp4", 30, (40, 28))
    now, later = both(tmp_path / "a.mp4", CROPS["ten"])
    assert torch.equal(later["inputs"].decode(CPU), now["inputs"])


def test_two_resizes_become_one(tmp_path) -> None:
    """The worker's is smoother: of noise the mean difference is below 8 levels."""
    write(tmp_path / "a.mp4", 30, (40, 28))
    twice = [dict(type="Resize", scale=(-1, 40)), *CROPS["random"]]
    now, later = both(tmp_path / "a.mp4", twice)
    difference = later["inputs"].decode(CPU).int() - now["inputs"].int()
    assert difference.abs().float().mean() < 8


@pytest.mark.parametrize(
    ("pack", "clips"),
    [
        (CLIPS, 3),
        (dict(type="FormatShape", input_format="NCHW"), 3),
        (dict(type="FormatShape", input_format="NCTHW", collapse=True), 1),
    ],
)
def test_views_are_in_the_order_of_format_shape(tmp_path, pack, clips) -> None:
    write(tmp_path / "a.mp4", 30)
    crops = CROPS["three"] if clips == 3 else CROPS["center"]
    now, later = both(tmp_path / "a.mp4", crops, dict(SAMPLE, num_clips=clips), pack)
    assert later["inputs"].shape == now["inputs"].shape
    assert_near(later["inputs"].decode(CPU), now["inputs"])


def test_frames_of_a_variable_rate_are_found_by_time(tmp_path) -> None:
    write_clock(tmp_path / "a.mp4")
    cover = dict(type="mmvidformer.CoverFrames", clip_len=8, frame_interval=6, test_mode=True)
    now, later = both(tmp_path / "a.mp4", [], cover, spans=np.zeros((0, 3)), background=-1)
    assert_near(later["inputs"].decode(CPU), now["inputs"], levels=0)
    assert len(np.unique(later["inputs"].numbers)) < len(later["inputs"].numbers)  # repeated


def test_frames_beyond_the_end_are_the_last_one(tmp_path) -> None:
    write(tmp_path / "a.mp4", 3)
    fixed = dict(type="SampleFrames", clip_len=4, frame_interval=2, out_of_bound_opt="repeat_last")
    now, later = both(tmp_path / "a.mp4", [], fixed)
    assert torch.equal(later["inputs"].decode(CPU), now["inputs"])


def test_boxes_follow_the_frames(tmp_path) -> None:
    write(tmp_path / "a.mp4", 30, (40, 28))
    boxes = np.array([[0.1, 0.2, 0.5, 0.6], [0, 0, 1, 1]])
    classes = torch.zeros(2, 3)
    now, later = both(
        tmp_path / "a.mp4", CROPS["random"], gt_bboxes=boxes, gt_labels=classes, seed=4
    )
    wanted = now["data_samples"].gt_instances.bboxes
    assert torch.equal(later["data_samples"].gt_instances.bboxes, wanted)
    assert wanted.max() > 2  # pixels


def test_videos_of_shards_are_handed_on(tmp_path) -> None:
    for name in ("a.mp4", "b.mkv"):
        write(tmp_path / name, 20)
    (tmp_path / "train.txt").write_text("a.mp4 0\nb.mkv 1\n")
    shard_list(tmp_path / "train.txt", tmp_path / "out")
    pipeline = [OPEN, SAMPLE, DECODE, *CROPS["center"], CLIPS, PACK]
    samples = []
    for steps in (pipeline, hand_on_files(pipeline)):
        np.random.seed(0)
        dataset = ShardedVideoDataset(str(tmp_path / "out"), steps)
        samples.append([dataset[number] for number in range(2)])
    for now, later in zip(*samples, strict=True):
        assert_near(later["inputs"].decode(CPU), now["inputs"])
    assert samples[1][0]["inputs"].source.numel() == (tmp_path / "a.mp4").stat().st_size


def test_of_a_large_file_the_path_is_handed_on(tmp_path, monkeypatch) -> None:
    write(tmp_path / "a.mp4", 30)
    monkeypatch.setattr(encoded, "MOST_BYTES", 100)
    now, later = both(tmp_path / "a.mp4", CROPS["center"])
    assert later["inputs"].source == str(tmp_path / "a.mp4")
    assert_near(later["inputs"].decode(CPU), now["inputs"])


def test_the_cpu_decodes_what_the_device_cannot(tmp_path, torchcodec, caplog, monkeypatch) -> None:
    write(tmp_path / "a.mp4", 30, codec="libx264")
    monkeypatch.setattr(logging.getLogger("mmvidformer"), "propagate", True)
    encoded._said_of_cpu.clear()
    torchcodec.broken.add("cpu")
    now, later = both(tmp_path / "a.mp4", CROPS["center"])
    for _ in range(2):
        assert_near(later["inputs"].decode(CPU), now["inputs"])
    assert torchcodec.devices == ["cpu", "cpu"]
    reason = "TorchCodec cannot read it (RuntimeError: this codec is not supported)"
    assert caplog.text.count(f"decoded on the CPU ({reason})") == 1


def test_a_video_that_cannot_be_decoded_is_bad(tmp_path) -> None:
    write(tmp_path / "a.mp4", 30)
    _, later = both(tmp_path / "a.mp4", CROPS["center"])
    later["inputs"].source[-2000:] = 0  # what its first frames and the header do not need
    later["inputs"].source[60:-2500] = 0
    with pytest.raises(BadVideo, match=r"a\.mp4: \w+"):
        later["inputs"].decode(CPU)


def test_transforms_that_change_pixels_are_refused() -> None:
    size = (20, 30)
    places = places_of(*size)
    crop = crop_of(places[2:9, 4:], size)
    assert crop.rows.tolist() == [*range(2, 9)] and crop.columns.tolist() == [*range(4, 30)]
    for wrong in (places * 2, places - 1, np.rot90(places), places[..., ::-1]):
        with pytest.raises(ValueError, match="only transforms that resize, crop and flip"):
            crop_of(wrong, size)


@pytest.mark.gpu
@needs_torchcodec
@pytest.mark.parametrize("codec", ["libx264", "libx265", "libvpx-vp9"])
def test_a_gpu_decodes_the_same_pixels(tmp_path, codec) -> None:
    """Its colors are rounded otherwise: at most 2 levels in the mean, 8 of 99% of the pixels."""
    path = tmp_path / "a.mp4"
    write_numbered(path, codec, size=(256, 192))
    now, later = both(path, CROPS["center"])
    pixels = later["inputs"].decode(torch.device("cuda:0"))
    assert pixels.device.type == "cuda"
    differences = (pixels.cpu().int() - now["inputs"].int()).abs().flatten().float()
    assert differences.mean() <= 2 and differences.quantile(0.99) <= 8
