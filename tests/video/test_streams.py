"""Files with several streams of video, or with a picture that is none."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mmvidformer.apis import Capture
from mmvidformer.video.check_files import read_to_end
from mmvidformer.video.video import Video
from tests.video.toys import write_cover, write_with_picture

SIZE = (48, 64, 3)  # of the film; the picture before it has 32 x 32 pixels


def captured(path: Path) -> list[np.ndarray]:
    with Capture(path) as capture:
        return [pixels for _, _, pixels in capture.frames()]


def test_the_film_is_read_where_a_picture_comes_first(tmp_path: Path) -> None:
    path = write_with_picture(tmp_path / "film.mkv")
    reader = Video.open(str(path))
    assert len(reader) == 12
    assert [image.shape for image in reader.get_batch([0, 5])] == [SIZE, SIZE]


def test_the_film_is_captured(tmp_path: Path) -> None:
    path = write_with_picture(tmp_path / "film.mkv")
    assert [image.shape for image in captured(path)] == [SIZE] * 12
    read_to_end(str(path))


def test_the_cover_of_a_song_is_no_video(tmp_path: Path) -> None:
    path = write_cover(tmp_path / "song.mp4")
    with pytest.raises(ValueError, match="no video stream, only an attached picture"):
        Video.open(str(path))


@pytest.mark.parametrize("read", [captured, read_to_end])
def test_the_cover_of_a_song_is_refused_by_all(tmp_path: Path, read: Callable) -> None:
    path = write_cover(tmp_path / "song.mp4")
    with pytest.raises(ValueError, match="no video stream, only an attached picture"):
        read(path)
