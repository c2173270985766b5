"""examples/prepare_videos.sh, which makes videos that decode fast."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mmvidformer.video.video import Video
from tests.video.toys import write

SCRIPT = Path(__file__).parents[2] / "examples" / "prepare_videos.sh"


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs FFmpeg")
def test_names_stay_and_bad_videos_are_left_out(tmp_path: Path) -> None:
    videos, out = tmp_path / "videos", tmp_path / "out"
    (videos / "x").mkdir(parents=True)
    write(videos / "x" / "a b.mp4", 5, (400, 300))
    write(videos / "small.avi", 5, (48, 64))
    (videos / "bad.mp4").write_text("no video")
    command = ["bash", str(SCRIPT), str(videos), str(out), "2"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "left out: ./bad.mp4" in run.stderr
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert names - {"bad.mp4.part"} == {"x/a b.mp4", "small.avi"}
    large, small = Video.open(out / "x" / "a b.mp4"), Video.open(out / "small.avi")
    assert min(large.size) == 256 and small.size == (64, 48) and len(large) == len(small) == 5
    before = (out / "small.avi").stat()
    subprocess.run(command, capture_output=True, check=True)
    assert (out / "small.avi").stat() == before
