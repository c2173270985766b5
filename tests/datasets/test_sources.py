"""Words of a command line: sources and checkpoints."""

import pytest

from mmvidformer.datasets.sources import is_source

VIDEOS = [
    "a.mp4",
    "A.MKV",
    "a.MTS",
    "b.gif",
    "http://server/a.m2ts",
    "http://server/live.ts",
    "https://server/a.mp4?token=1#t=2",
]
STREAMS = ["0", "http://server/live.m3u8", "https://server/a.mpd", "rtsp://server/x"]
STREAMS += ["RTSP://server/x", "rtsps://server/x", "udp://@:1234"]
CHECKPOINTS = ["a.pth", "hf://org/name", "published://name", "https://server/a.pth"]
CHECKPOINTS += ["https://server/a.pyth?dl=1", "https://server/checkpoint", "http://a.ts/weights"]


@pytest.mark.parametrize("word", [*VIDEOS, *STREAMS])
def test_a_source(word: str) -> None:
    assert is_source(word)


@pytest.mark.parametrize("word", CHECKPOINTS)
def test_a_checkpoint(word: str) -> None:
    assert not is_source(word)


def test_a_folder_of_videos_is_a_source_and_one_of_weights_is_none(tmp_path) -> None:
    assert is_source(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert not is_source(str(tmp_path))
