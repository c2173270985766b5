"""Words of a command line: sources and checkpoints."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mmvidformer.data.sources import is_source, list_sources

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


def test_a_file_is_what_is_in_it(tmp_path, tiny_videos) -> None:
    """Whatever its suffix, for each format of weights."""
    film = tmp_path / "film.bin"
    shutil.copy(tiny_videos.root / "val_0.mp4", film)
    assert is_source(str(film))
    state = {"a": torch.ones(1)}
    for name, save in (
        ("a.zip.foo", lambda path: torch.save(state, path)),
        ("a.pickle", lambda path: torch.save(state, path, _use_new_zipfile_serialization=False)),
        ("a.tensors", lambda path: save_file(state, path)),
        ("a.npz", lambda path: np.savez(path, a=np.ones(1))),
        ("a.msgpack", lambda path: path.write_bytes(b"\x81\xa1a\x01")),
        ("broken.pth", lambda path: path.write_bytes(b"")),
    ):
        save(tmp_path / name)
        assert not is_source(str(tmp_path / name)), name


def test_a_source_that_is_named_twice_is_one(tmp_path, tiny_videos) -> None:
    shutil.copy(tiny_videos.root / "val_0.mp4", tmp_path / "a.mp4")
    words = [str(tmp_path), f"{tmp_path}/./a.mp4", str(tmp_path / "a.mp4")]
    assert [source.name for source in list_sources(words)] == [str(tmp_path / "a.mp4")]


def test_a_folder_of_videos_is_a_source_and_one_of_weights_is_none(tmp_path) -> None:
    assert is_source(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert not is_source(str(tmp_path))
