"""The stored dataset of camera motions."""

import csv

import av
import numpy as np

from lab.synthetic.camera.paths import CLASSES, class_of
from lab.synthetic.camera.spec import CameraLook, CameraSpec


def test_clips_and_velocities(tmp_path) -> None:
    spec = CameraSpec(train=9, val=1, test=2, look=CameraLook(size=32, frames=3, textures=2))
    assert spec.write(tmp_path)
    lines = [line.rsplit(" ", 1) for line in (tmp_path / "train.txt").read_text().splitlines()]
    labels = {path: int(label) for path, label in lines}
    assert [*labels.values()] == [*range(9)]
    assert (tmp_path / "classes.txt").read_text().splitlines() == [*CLASSES]
    with open(tmp_path / "velocities.csv", newline="") as file:
        rows = {row.pop("clip"): [*map(float, row.values())] for row in csv.DictReader(file)}
    assert len(rows) == 12
    assert [class_of(np.array(rows[path])) for path in labels] == [*labels.values()]
    with av.open(str(tmp_path / "train" / "train_00001.mp4")) as file:
        assert [frame.height for frame in file.decode(video=0)] == [32] * 3
    with av.open(str(tmp_path / "film.mp4")) as file:  # 2 s of each class, for browsers
        assert file.streams.video[0].codec_context.name == "h264"
        assert len([*file.decode(video=0)]) == 9 * 16
