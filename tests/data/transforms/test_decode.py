"""Which transforms decode what others open."""

from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
from mmaction.datasets import transforms as theirs
from mmaction.datasets.transforms import SampleFrames

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.data.transforms.decode import VideoDecode, VideoInit
from mmvidformer.data.transforms.decoders import check_decoders
from tests.video.toys import PACK, READ, some_good, videos, write

OPENERS = {
    "DecordInit": theirs.DecordInit,
    "PyAVInit": theirs.PyAVInit,
    "OpenCVInit": theirs.OpenCVInit,
    "PIMSInit": theirs.PIMSInit,
    "VideoInit": VideoInit,
    "VideoInit with decord": partial(VideoInit, "decord"),
}
DECODERS = {
    "DecordDecode": theirs.DecordDecode,
    "DecordDecode of key frames": partial(theirs.DecordDecode, "efficient"),
    "PyAVDecode": theirs.PyAVDecode,
    "PyAVDecodeMotionVector": theirs.PyAVDecodeMotionVector,
    "OpenCVDecode": theirs.OpenCVDecode,
    "PIMSDecode": theirs.PIMSDecode,
    "VideoDecode": VideoDecode,
}


def decode(path, opener, decoder) -> np.ndarray:
    """Frames 0 to 3 of a video, or their motion vectors."""
    results = dict(filename=str(path), start_index=0)
    for transform in (opener, SampleFrames(clip_len=4, test_mode=True), decoder):
        results = transform(results)
    if "motion_vectors" in results:
        return results["motion_vectors"]
    assert all(isinstance(image, np.ndarray) for image in results["imgs"])
    return np.stack(results["imgs"])


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """A video of noise, and its frames."""
    path = tmp_path_factory.mktemp("videos") / "a.mp4"
    write(path, count=4)
    return path, decode(path, theirs.DecordInit(), theirs.DecordDecode())


def works(video, opener, decoder) -> bool:
    """Whether the decoded frames are those of the video, with its colors."""
    path, expected = video
    try:
        images = decode(path, opener, decoder)
    except Exception:
        return False
    if images.shape != expected.shape or getattr(decoder, "mode", "") == "efficient":
        return len(images) == 4  # motion vectors, or key frames
    return np.abs(images.astype(float) - expected).mean() < 3


@pytest.mark.parametrize("second", DECODERS)
@pytest.mark.parametrize("first", OPENERS)
def test_what_does_not_work_is_refused_at_the_start(video, first, second) -> None:
    opener, decoder = OPENERS[first](), DECODERS[second]()
    if "PIMS" in first and not find_spec("pims"):
        expected = second == "PIMSDecode"
    else:
        expected = works(video, opener, decoder)
    pipeline = [opener, SampleFrames(clip_len=4), decoder]
    if expected:
        check_decoders(pipeline)
        return
    with pytest.raises(
        ValueError, match=rf"^{second.split()[0]}.* what {first.split()[0]} opens; use"
    ):
        check_decoders(pipeline)


class OwnInit(VideoInit):
    """Opens videos as a user wants it."""


class OwnDecode(theirs.PyAVDecode):
    """Decodes what a user opens."""


@pytest.mark.parametrize(
    "pipeline",
    [[OwnInit(), theirs.PyAVDecode()], [VideoInit(), OwnDecode()], [theirs.PyAVDecode()],
     [theirs.PyAVInit(), theirs.PyAVDecode(), VideoInit(), VideoDecode()]],
)  # fmt: skip
def test_what_may_work_is_not_refused(pipeline) -> None:
    check_decoders(pipeline)


@pytest.mark.usefixtures("scope")
@pytest.mark.parametrize("policy", ["raise", "resample"])
def test_a_dataset_with_the_wrong_decoder_is_not_built(tmp_path, policy) -> None:
    """Whatever wraps it."""
    names = some_good(tmp_path, 1)
    pipeline = [dict(type="mmvidformer.VideoInit"), READ[1], dict(type="PyAVDecode"), *PACK]
    error = r"PyAVDecode cannot decode what VideoInit opens; use VideoDecode\(\)"
    with pytest.raises(ValueError, match=error):
        videos(tmp_path, names, pipeline, on_bad_video=policy)
    inner = videos(tmp_path, names).dataset
    inner.pipeline.transforms[:1] = [VideoInit(), theirs.OpenCVDecode()]
    with pytest.raises(ValueError, match="OpenCVDecode cannot decode what VideoInit opens"):
        SafeDataset(dict(type="RepeatDataset", dataset=inner, times=2), policy)


@pytest.mark.usefixtures("scope")
def test_what_no_transform_sets_is_not_the_videos_fault(tmp_path) -> None:
    names = some_good(tmp_path, 1)
    data = videos(tmp_path, names, [dict(type="mmvidformer.VideoDecode"), *PACK])
    with pytest.raises(KeyError, match="video_reader"):
        data[0]
