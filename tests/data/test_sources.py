"""Words of a command line: sources and checkpoints; what is listed of a source."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mmvidformer.data.sources import is_source, list_inputs, list_sources, list_video_files
from mmvidformer.sinks.video_files import VideoFiles

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


NAMES = ["a:b.mp4", "12:30.mp4", "100%.mp4", "%d.mp4", "a#b.mp4", "a?b.mp4", "a\nb.mp4", "a b.mp4"]
NAMES += [os.fsdecode(b"caf\xe9.mp4"), "UP.MP4", "-a.mp4", "s3:b.mp4"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_relative", [False, True], ids=["absolute", "relative"])
def test_any_name_of_a_file_is_listed_as_it_is(tmp_path, monkeypatch, name, is_relative) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "films" / "day"
    folder.mkdir(parents=True)
    for file in (name, ".hidden.mp4", "._a.mp4"):
        (folder / file).touch()
    root = "films" if is_relative else str(tmp_path / "films")
    inputs = list_inputs(root)
    assert list(inputs.names) == [f"day/{name}"]
    assert os.path.samefile(inputs.locate(inputs.names[0]), folder / name)
    assert list_video_files(root) == [f"{root}/day/{name}"]
    assert [source.name for source in list_sources([root])] == [f"{root}/day/{name}"]


@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_results_of_a_list_stay_in_their_folder(tmp_path, suffix) -> None:
    """Videos beside and outside of the list's folder, of one name, and one that is named twice."""
    films = tmp_path / "films"
    (films / "sub").mkdir(parents=True)
    names = ["a.mp4", "sub/a.mp4", "../a.mp4", str(tmp_path / "b.mp4"), "./a.mp4", "noend"]
    form = "video\n{}\n" if suffix == "csv" else "{}\n"
    file = films / f"list.{suffix}"
    file.write_text(form.format("\n".join(names)))
    sources = list_sources([str(file)])
    paths = [os.path.abspath(source.name) for source in sources]
    expected = [films / "a.mp4", films / "sub" / "a.mp4", tmp_path / "a.mp4", tmp_path / "b.mp4"]
    assert paths == [str(path) for path in (*expected, films / "noend.mp4")]
    out = tmp_path / "out"
    out.mkdir()
    targets = [Path(os.path.abspath(source.target(out, ".png"))) for source in sources]
    assert len({*targets}) == len(sources)
    assert all(target.is_relative_to(out) for target in targets)
    table = VideoFiles(str(out), films, names[:4], has_clips=False, rows=None, settings={})
    places = [Path(os.path.abspath(out / place)) for place in table.places.values()]
    assert len({*places}) == 4 and all(place.is_relative_to(out) for place in places)


def test_an_empty_list_and_an_empty_folder(tmp_path) -> None:
    (tmp_path / "empty.csv").write_text("video\n")
    with pytest.raises(ValueError, match=r"empty\.csv names no video"):
        list_sources([str(tmp_path / "empty.csv")])
    with pytest.raises(FileNotFoundError, match=r"has no videos, only 1 \.csv"):
        list_sources([str(tmp_path)])
