"""Samples that hang, crash or are interrupted, and the processes that read them."""

import os
import signal
import time

import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate
from torch.utils.data import ConcatDataset, DataLoader

from mmvidformer.datasets.decoding import readers
from mmvidformer.datasets.decoding import safe_dataset as safe
from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.decoding.safe_dataset import SafeDataset
from tests.datasets.decoding.toys import (
    IN_PLACE,
    LENGTH,
    PACK,
    READ,
    Fails,
    Trap,
    some_good,
    videos,
    write,
)

pytestmark = pytest.mark.usefixtures("scope")


class Crashes(Fails):
    """Crashes where ``Fails`` raises."""

    def __getitem__(self, idx):
        if idx in self.bad:
            os.kill(os.getpid(), signal.SIGSEGV)
        return idx


def test_samples_are_bad_not_files():
    """All frames of an LMDB, and all segments of a long video, have one path."""
    data = SafeDataset(
        Crashes(20, {3}, lmdb="frames.lmdb"), "resample", max_bad_share=0.05, time_limit=20
    )
    for _ in range(2):
        assert [data[i] for i in range(20) if i != 3] == [i for i in range(20) if i != 3]
        assert data[3] != 3
    assert data.bad_samples.known() == {3: ("frames.lmdb", "crashed its process (SIGSEGV)")}


class Once(Fails):
    """Fails in the given way, at the first tries only; they are counted in a file."""

    def __init__(self, folder, failure, times=1):
        super().__init__(2, filename="video.mp4")
        self.log, self.failure, self.times = folder / "tries", failure, times

    def __getitem__(self, idx):
        with self.log.open("a") as log:
            log.write(f"{os.getpid()}\n")
        if len(self.log.read_text().split()) <= self.times:
            self.failure()
        return float(torch.rand(()))


def raise_error():
    raise OSError("the disk is busy")


def end_by(name):
    return lambda: os.kill(os.getpid(), getattr(signal, name))


@pytest.mark.parametrize("failure", [raise_error, end_by("SIGSEGV")])
def test_a_second_try_in_another_process_decides(tmp_path, failure):
    data = SafeDataset(Once(tmp_path, failure), "resample", time_limit=20)
    torch.manual_seed(0)
    value = data[0]
    torch.manual_seed(0)
    assert value == float(torch.rand(()))
    assert len(set(data.dataset.log.read_text().split())) == 2
    assert not data.bad_samples.known()
    (tmp_path / "tries").unlink()
    data = SafeDataset(Once(tmp_path, failure, 2), "resample", 1.0, time_limit=20)
    data[0]
    assert list(data.bad_samples.known()) == [0]


@pytest.mark.parametrize("failure", [end_by("SIGKILL"), lambda: time.sleep(60)])
def test_interruptions_from_outside_are_not_held_against_the_video(tmp_path, failure, monkeypatch):
    logged = []
    monkeypatch.setattr(safe, "print_log", lambda message, **_: logged.append(message))
    data = SafeDataset(Once(tmp_path, failure, 2), "resample", time_limit=1)
    assert 0 <= data[0] < 1
    assert len(logged) == 2
    assert all("sample 0 (video.mp4): " in line and "trying again" in line for line in logged)
    (tmp_path / "tries").unlink()
    data = SafeDataset(Once(tmp_path, failure, 3), "resample", time_limit=1)
    reason = "killed from outside|the storage stalled"
    with pytest.raises(RuntimeError, match=rf"sample 0 \(video\.mp4\): .*({reason}).* 3 times"):
        data[0]
    assert not data.bad_samples.known()


def test_a_missing_package_is_not_a_bad_video(tmp_path):
    def fail():
        import there_is_no_such_package  # noqa: F401

    for folder, limit, error in (("a", None, ImportError), ("b", 20, RuntimeError)):
        (tmp_path / folder).mkdir()
        data = SafeDataset(Once(tmp_path / folder, fail, 9), "resample", 1.0, time_limit=limit)
        with pytest.raises(error, match="there_is_no_such_package"):
            data[0]


@pytest.mark.parametrize("persistent", [False, True])
def test_hangs_and_crashes_cost_their_own_sample_alone(tmp_path, persistent):
    names = [*some_good(tmp_path), "hang.mp4", "crash.mp4"]
    data = videos(
        tmp_path,
        names,
        [Trap(), *READ, *PACK],
        test_mode=True,
        on_bad_video="resample",
        max_bad_share=0.5,
        time_limit=2,
    )
    data.is_hooked = True
    loader = DataLoader(
        data, num_workers=2, collate_fn=pseudo_collate, persistent_workers=persistent
    )
    tries = []
    for _ in range(2):
        samples = [batch["data_samples"][0] for batch in loader]
        assert len(samples) == 8
        assert [s.get("bad_path") is not None for s in samples] == [False] * 6 + [True] * 2
        tries.append([path.read_text() for path in sorted(tmp_path.glob("*.tries"))])
    assert len(tries[0]) == 2 and tries[0] == tries[1]  # remembered, and not tried again
    reasons = {p.rsplit("/")[-1]: reason for p, reason in data.bad_samples.known().values()}
    assert reasons["hang.mp4"] == "took longer than 2 s and was killed"
    assert reasons["crash.mp4"] == "crashed its process (SIGSEGV)"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_safe_backend_needs_no_helper(tmp_path, workers):
    """Faults and hangs cost their own sample alone; the limit counts processor time."""
    names = [*some_good(tmp_path), "hang.mp4", "gone.mp4"]
    write(tmp_path / "hang.mp4")
    data = videos(
        tmp_path,
        names,
        [Trap(), *IN_PLACE, *PACK],
        test_mode=True,
        on_bad_video="resample",
        max_bad_share=0.5,
        time_limit=1,
    )
    data.is_hooked = True
    assert data._helper is None
    before = signal.getsignal(signal.SIGPROF)
    loader = DataLoader(data, num_workers=workers, collate_fn=pseudo_collate)
    samples = [batch["data_samples"][0] for batch in loader]
    assert [s.get("bad_path") is not None for s in samples] == [False] * 6 + [True] * 2
    reasons = {p.rsplit("/")[-1]: reason for p, reason in data.bad_samples.known().values()}
    assert reasons["hang.mp4"] == "TimeoutError: took longer than 1 s"
    assert reasons["gone.mp4"] == "there is no such file"
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_a_hang_between_frames_names_the_decoder(tmp_path, monkeypatch):
    name = some_good(tmp_path, 1)
    data = videos(tmp_path, name, [*IN_PLACE, *PACK], time_limit=1)
    hang = dict(filename="/hang.mp4")
    monkeypatch.setattr(readers.VideoReader, "_resized", lambda *_: Trap()(hang))
    with pytest.raises(BadVideo, match=r"good0\.mp4: PyAV cannot decode it: took longer than 1 s"):
        data[0]


def test_storage_that_stalls_is_waited_for(tmp_path):
    class Stall:
        def __call__(self, results):
            time.sleep(0.6)
            return results

    data = videos(tmp_path, some_good(tmp_path, 1), [Stall(), *IN_PLACE, *PACK], time_limit=0.5)
    assert data._helper is None and data[0]["inputs"].shape[2] == LENGTH


@pytest.mark.parametrize(
    ("opening", "helper", "expected"),
    [
        (dict(type="DecordInit"), None, True),
        (dict(type="DecordInit"), False, False),
        (dict(type="mmvidformer.VideoInit"), None, False),
        (dict(type="mmvidformer.VideoInit"), True, True),
        (dict(type="mmvidformer.VideoInit", backend="decord"), None, True),
    ],
)
def test_who_reads(tmp_path, opening, helper, expected):
    """A helper, unless all pipelines open videos with a backend that does not crash."""
    inner = videos(tmp_path, ["a.mp4"], [opening, *READ[1:]]).dataset
    in_place = videos(tmp_path, ["a.mp4"], IN_PLACE).dataset
    for dataset in (inner, ConcatDataset([in_place, inner])):
        data = SafeDataset(dataset, time_limit=20, helper=helper)
        assert (data._helper is not None) == expected
    assert SafeDataset(inner, helper=helper)._helper is None  # no limit


class Pids(Fails):
    """Gives the processes that read: the helper and the worker that owns it."""

    def __getitem__(self, idx):
        time.sleep(0.05)  # so that each worker reads some
        return os.getpid(), os.getppid()


def test_helpers_end_with_their_worker():
    data = SafeDataset(Pids(12), time_limit=20)
    loader = iter(DataLoader(data, batch_size=None, num_workers=2))
    pids = {pid for pair in [next(loader) for _ in range(8)] for pid in pair}
    assert len(pids) == 4 and os.getpid() not in pids
    del loader
    deadline = time.monotonic() + 10
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, pids))


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Noise:
    """Uses all three generators."""

    def __call__(self, results):
        import random

        draw = random.random() + np.random.rand() + torch.rand(()).item()
        results["imgs"] = [image + np.uint8(20 * draw) for image in results["imgs"]]
        return results


def test_random_numbers_are_those_of_a_run_without_helper(tmp_path):
    names = [*some_good(tmp_path, 3), "gone.mp4"]
    policy = dict(on_bad_video="resample", max_bad_share=1.0)

    def run(time_limit):
        data = videos(tmp_path, names, [*READ, Noise(), *PACK], time_limit=time_limit, **policy)
        np.random.seed(0)
        torch.manual_seed(0)
        __import__("random").seed(0)
        return [data[i % 4]["inputs"] for i in range(12)]

    for alone, helped in zip(run(None), run(20), strict=True):
        assert torch.equal(alone, helped)
