"""The answer to a request for rows, as lines of JSON."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mmvidformer.errors import LostProcess, UserError
from mmvidformer.web.pool import Pool
from mmvidformer.web.process import Work
from mmvidformer.web.rows import Row
from mmvidformer.web.server import Server
from mmvidformer.web.uploads import Refused, store_upload, video_path


@dataclass(eq=False)
class RowsResponse(Response):
    """The answer to a request: stores its video, waits for a process, sends rows.

    Args:
        server: What answers.
        request: The request, whose body was not read.
        pool: Its processes, of which one answers.
        model: Name of the model.
        work: A work, which takes a video and its title.
        address: Of the video, if it is not in the request.
        at_loss: Called if the process is lost.
    """

    server: Server
    request: Request
    pool: Pool
    model: str
    work: Work
    address: str | None = None
    at_loss: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        super().__init__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or raise the ``UserError`` that says why not, before anything is sent."""
        began, lines = time.monotonic(), _Lines(send, self.server.limits.max_wait)
        try:
            with self.pool.place(), TemporaryDirectory(dir=self.server.folder) as folder:
                video, title = await self._store(Path(folder))
                await _unless_gone(receive, self._answer(video, title, lines))
        except (ClientDisconnect, asyncio.CancelledError):
            lines.status = 499  # the client left, as nginx counts it
        path, seconds = self.request.scope["route"].path, time.monotonic() - began
        self.server.metrics.add(path, lines.status, seconds)

    async def _store(self, folder: Path) -> tuple[Path, str]:
        limits, name = self.server.limits, self.request.query_params.get("name")
        if self.address is not None:  # the process fetches it, which can be killed
            title = name or Path(urlsplit(self.address).path).name or "video"
            return video_path(folder, title), title
        storing = store_upload(self.request, folder, limits.max_mb)
        try:
            return await asyncio.wait_for(storing, limits.max_wait)
        except asyncio.TimeoutError:
            text = f"the file did not arrive in {limits.max_wait:g} s"
            raise Refused(408, text) from None

    async def _answer(self, video: Path, title: str, lines: "_Lines") -> None:
        try:
            async with aclosing(self.pool.ask(self.model, self.work, video, title)) as rows:
                async for row in rows:
                    await lines.send(row)
        except UserError as error:
            if self.at_loss and isinstance(error, LostProcess):
                self.at_loss()
            if not lines.has_begun:
                raise
            await lines.send({"video": title, "error": str(error)})
        await lines.send(None)


class _Lines:
    """Lines of JSON, each sent when it is known; a client that does not read them is given up."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send, self._patience = send, patience
        self.status, self.has_begun = 200, False

    async def send(self, row: Row | None) -> None:
        """Send a row; None: there are no more."""
        if not self.has_begun:
            self.has_begun = True
            headers = [(b"content-type", b"application/x-ndjson")]
            start = dict(type="http.response.start", status=self.status, headers=headers)
            await self._send(start)
        body = b"" if row is None else json.dumps(row, ensure_ascii=False).encode() + b"\n"
        part = dict(type="http.response.body", body=body, more_body=row is not None)
        try:
            await asyncio.wait_for(self._send(part), self._patience)
        except asyncio.TimeoutError:
            raise asyncio.CancelledError from None


async def _unless_gone(receive: Receive, answer: Awaitable[None]) -> None:
    """Wait for an answer; if the client leaves before, cancel it."""

    async def leave() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    answering, leaving = asyncio.ensure_future(answer), asyncio.ensure_future(leave())
    try:
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (leaving, answering):
            task.cancel()  # does nothing to what is done
    await answering
