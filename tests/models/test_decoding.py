"""Decoding in the data preprocessor, and its policy for bad videos."""

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample

from mmvidformer.models import decoding
from mmvidformer.models.decoding import ClipDecoder
from mmvidformer.models.preprocessor import VideoDataPreprocessor
from mmvidformer.video.encoded import Crop, EncodedClip
from mmvidformer.video.errors import BadVideo, TooManyBadVideos
from mmvidformer.video.video import Video
from tests.video import fake_torchcodec
from tests.video.toys import write

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def torchcodec(monkeypatch):
    return fake_torchcodec.install(monkeypatch)


@pytest.fixture
def batch(tmp_path):
    """Makes clips of whole frames (1, 3, 4, 24, 40), some of which are bad, and their samples."""
    path = tmp_path / "a.mp4"
    write(path)
    content = path.read_bytes()
    whole = Crop(np.arange(24, dtype=np.float32), np.arange(40, dtype=np.float32))

    def make(*are_good: bool):
        clips, samples = [], []
        for number, is_good in enumerate(are_good):
            source = torch.frombuffer(bytearray(content if is_good else b"none"), dtype=torch.uint8)
            numbers = np.arange(4) + number
            clips.append(
                EncodedClip(source, f"{number}.mp4", numbers, (24, 40), (whole,), clip_len=4)
            )
            sample = ActionDataSample().set_gt_label(number)
            sample.set_metainfo(dict(img_shape=(24, 40)))
            samples.append(sample)
        return clips, samples

    def frames(number: int):
        images = np.stack(Video.open(str(path)).frames(np.arange(4) + number))
        return torch.from_numpy(images).permute(3, 0, 1, 2)[None]

    make.frames = frames
    return make


def labels(samples) -> list[int]:
    return [int(sample.gt_label) for sample in samples]


def test_the_preprocessor_decodes_before_it_augments(batch) -> None:
    augment = [dict(type="mmvidformer.ClipFlip", p=1.0)]
    preprocessor = VideoDataPreprocessor(
        augment, mean=[10, 20, 30], std=[2, 3, 4], format_shape="NCTHW"
    )
    mean, std = (torch.tensor(values).view(3, 1, 1, 1) for values in ([10, 20, 30], [2, 3, 4]))
    for training in (False, True):
        clips, samples = batch(True, True)
        done = preprocessor(dict(inputs=clips, data_samples=samples), training)
        wanted = torch.stack([batch.frames(0), batch.frames(1)]).float()
        wanted = wanted.flip(-1) if training else wanted
        torch.testing.assert_close(done["inputs"], (wanted - mean) / std)
        assert labels(done["data_samples"]) == [0, 1]


def test_in_training_another_clip_is_taken(batch) -> None:
    decoder = ClipDecoder("resample")
    clips, samples = batch(True, False, True)
    torch.manual_seed(0)
    pixels, decoded = decoder.decode(clips, samples, CPU, training=True)
    first, other, last = labels(decoded)
    assert (first, last) == (0, 2) and other in (0, 2)
    assert torch.equal(pixels[1], batch.frames(other))
    assert decoded[1] is not decoded[other]
    assert labels(samples) == [0, 1, 2]


def test_in_testing_it_counts_as_wrong(batch) -> None:
    decoder = ClipDecoder("resample")
    clips, samples = batch(False, True)
    pixels, decoded = decoder.decode(clips, samples, CPU, training=False)
    assert pixels[0].shape == pixels[1].shape and not pixels[0].any()
    assert labels(decoded) == [0, 1]
    assert decoded[0].bad_path == "0.mp4" and "damaged" in decoded[0].bad_video
    assert decoded[0].annotation_keys == ("img_shape",)
    assert "bad_video" not in decoded[1] and "bad_video" not in samples[0]


def test_too_many_end_the_run(batch, monkeypatch) -> None:
    monkeypatch.setattr(decoding, "LEAST_READ", 10)
    decoder = ClipDecoder("resample", 0.1)
    decoder.decode(*batch(True, False), CPU, training=True)
    with pytest.raises(
        TooManyBadVideos, match=r"2 bad ones among 4 decoded clips .*=0\.1; .* 1\.mp4: "
    ):
        decoder.decode(*batch(True, False), CPU, training=True)


def test_a_batch_of_bad_videos_ends_training(batch) -> None:
    with pytest.raises(TooManyBadVideos, match=r"all clips of a batch are bad; .* 0\.mp4: "):
        ClipDecoder("resample").decode(*batch(False, False), CPU, training=True)


def test_without_a_policy_a_bad_video_raises(batch) -> None:
    with pytest.raises(BadVideo, match=r"^0\.mp4: it is damaged"):
        VideoDataPreprocessor(format_shape="NCTHW")(
            dict(zip(("inputs", "data_samples"), batch(False, True), strict=True)), training=True
        )


def test_the_device_is_that_of_the_process(batch, torchcodec, monkeypatch) -> None:
    """MMEngine says cuda, whichever GPU of the node the process has."""
    asked = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(
        EncodedClip, "decode", lambda _, device: asked.append(device) or torch.zeros(1)
    )
    for device in (torch.device("cuda"), torch.device("cuda:1"), CPU):
        ClipDecoder().decode(*batch(True), device, training=True)
    assert asked == [torch.device("cuda:3"), torch.device("cuda:1"), CPU]
