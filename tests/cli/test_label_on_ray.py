"""Labels of many videos on a local cluster of Ray."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs Ray, which the extra 'ray' installs")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
pytestmark = pytest.mark.slow


@pytest.fixture
def many(tiny_videos, tmp_path) -> Path:
    """A folder of 60 videos, under 15 names each, and a broken one."""
    root = tmp_path / "many"
    root.mkdir()
    for video in tiny_videos.root.glob("*.mp4"):
        for number in range(4):
            os.link(video, root / f"{number}_{video.name}")
    (root / "bad.mp4").write_bytes(b"no video")
    return root


def actors_of(driver: int) -> list[int]:
    """Processes of the actors whose cluster a process has started."""
    parents, actors = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rpartition(") ")[2].split()
            name = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(status[1])
        if name.startswith("ray::MapWorker"):
            actors.append(int(folder.name))

    def descends(process: int) -> bool:
        while process in parents:
            process = parents[process]
            if process == driver:
                return True
        return False

    return [actor for actor in actors if descends(actor)]


def test_a_killed_actor_loses_and_repeats_nothing(run, main_of, model, many, tmp_path) -> None:
    command = ["label", *model, str(many), "--part", "2", "--batch", "2"]
    assert main_of("label")([*command[1:], "--out", str(tmp_path / "here"), "--workers", "0"]) == 1
    expected = pq.read_table(tmp_path / "here")
    out = tmp_path / "ray"
    words = [sys.executable, "-W", "ignore", "-m", "mmvidformer", *command]
    # Other processes of this machine may hold its memory, for which Ray would end its actors, and
    # its cores, to which Ray would leave them.
    settings = dict(RAY_memory_monitor_refresh_ms="0", RAY_worker_niceness="0")
    process = run(*words, "--out", out, "--ray", "local", "--procs", "2", **settings)
    limit = time.monotonic() + 500
    while not list(out.glob("part-*.parquet")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < limit
        time.sleep(0.05)
    actors = actors_of(process.pid)
    assert len(actors) == 2
    os.kill(actors[0], signal.SIGKILL)
    before = len(list(out.glob("part-*.parquet")))
    log = process.communicate(timeout=300)[0]
    assert process.returncode == 1, log
    assert before < 31 and "60 answered, 0 answered before, 1 failed" in log
    assert pq.read_table(out).equals(expected)
    assert "bad.mp4,DecordInit cannot read it" in (out / "_failed.csv").read_text()
