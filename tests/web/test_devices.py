"""A server of two devices, which here are the CPU twice."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from mmvidformer.engine.offer_options import ServeOptions
from tests.web.serving import Served, wait_for

Server = pytest.importorskip("mmvidformer.web.server").Server


def test_each_device_has_a_process_and_as_many_readers(models, video, tmp_path) -> None:
    options = ServeOptions(device="cpu,cpu", workers=2, streams=3)
    server = Server(models, options, tmp_path)
    first, second = (shared.readers for shared in server.shared)
    assert first["tiny"].address != second["tiny"].address
    assert [process.models for process in server.pool.processes] == [first, first, second, second]
    streams = [pool.processes[0].models for pool in server.streams.pools]
    assert streams == [first, second, first]


def test_requests_go_to_the_device_with_the_fewest(models, video, tmp_path, forked) -> None:
    served = Served(Server(models, ServeOptions(device="cpu,cpu", workers=2), tmp_path))
    try:
        assert served.ask("/predict", video).status == 200
        idle = served.server.pool._idle
        with ThreadPoolExecutor(2) as threads:
            asked = [threads.submit(served.ask, "/predict?name=a.slow", video) for _ in range(2)]
            wait_for(lambda: served.server.pool.running == 2)
            assert [len(processes) for processes in idle] == [1, 1]
            assert [reply.result().status for reply in asked] == [200, 200]
        wait_for(lambda: [len(processes) for processes in idle] == [2, 2])
        rows = [served.ask("/predict?name=a.mp4", video).rows for _ in range(4)]
        assert rows == rows[:1] * 4
    finally:
        served.stop()
