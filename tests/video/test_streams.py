"""Files with several streams of video, or with a picture that is none."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mmvidformer.apis import Capture
from mmvidformer.video.check_files import read_to_end
from mmvidformer.video.encode import encode_video
from mmvidformer.video.video import Video
from tests.video.numbered_videos import ALL
from tests.video.toys import write_cover, write_with_picture

SIZE = (48, 64, 3)  # of the film; the picture before it has 32 x 32 pixels


def captured(path: Path) -> list[np.ndarray]:
    with Capture(path) as capture:
        return [pixels for _, _, pixels in capture.frames()]


def prepared(path: Path) -> list[np.ndarray]:
    target = path.with_name("prepared.mp4")
    encode_video(str(path), str(target))
    return Video.open(str(target)).get_batch(range(12))


READ = {"prepared": prepared, "captured": captured}


@pytest.mark.parametrize("backend", ALL)
def test_the_film_is_read_where_a_picture_comes_first(tmp_path: Path, backend: str) -> None:
    path = write_with_picture(tmp_path / "film.mkv")
    reader = Video.open(str(path), backend)
    assert len(reader) == 12
    assert [image.shape for image in reader.get_batch([0, 5])] == [SIZE, SIZE]


@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_the_film_is_read_by_all(tmp_path: Path, read: Callable) -> None:
    path = write_with_picture(tmp_path / "film.mkv")
    assert [image.shape for image in read(path)] == [SIZE] * 12
    read_to_end(str(path))


@pytest.mark.parametrize("backend", ALL)
def test_the_cover_of_a_song_is_no_video(tmp_path: Path, backend: str) -> None:
    path = write_cover(tmp_path / "song.mp4")
    with pytest.raises(ValueError, match="no video stream, only an attached picture"):
        Video.open(str(path), backend)


@pytest.mark.parametrize("read", [*READ.values(), read_to_end], ids=[*READ, "checked"])
def test_the_cover_of_a_song_is_refused_by_all(tmp_path: Path, read: Callable) -> None:
    path = write_cover(tmp_path / "song.mp4")
    with pytest.raises(ValueError, match="no video stream, only an attached picture"):
        read(path)
