"""The quota of uploads that are stored."""

import asyncio
import os
import time

import pytest

from mmvidformer.web.limits import KEPT

UploadQuota = pytest.importorskip("mmvidformer.web.uploads").UploadQuota


def test_a_quota_counts_what_arrives_and_deletes_what_broke_off(tmp_path) -> None:
    answers, going_on = [], asyncio.Event()

    async def app(scope, receive, send) -> None:
        await going_on.wait()
        answers.append(200)

    async def receive() -> dict:
        return dict(type="http.disconnect")

    async def send(message) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    async def post(quota, megabytes: float) -> None:
        headers = [(b"content-length", str(int(megabytes * 1e6)).encode())]
        await quota(dict(type="http", method="POST", headers=headers), receive, send)

    async def upload() -> None:
        quota = UploadQuota(app, tmp_path, most_mb=2)
        first = asyncio.create_task(post(quota, 1.2))
        await asyncio.sleep(0)
        await post(quota, 1.2)
        assert answers == [503]
        going_on.set()
        await first
        await post(quota, 1.2)
        assert answers == [503, 200, 200]
        for name, age in (("tmp_new", 0), ("tmp_old", KEPT + 9), ("film.mp4", KEPT + 9)):
            (tmp_path / name).write_bytes(bytes(400_000))
            os.utime(tmp_path / name, (time.time() - age,) * 2)
        await post(quota, 1.2)
        await post(quota, 1.3)
        assert answers == [503, 200, 200, 200, 503]
        assert {path.name for path in tmp_path.iterdir()} == {"tmp_new", "film.mp4"}

    asyncio.run(upload())
