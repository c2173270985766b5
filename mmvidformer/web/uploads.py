"""Uploads: how much may come, and where it goes."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmvidformer.errors import LostProcess, UserError
from mmvidformer.web.limits import KEPT

FORM_MB = 0.1  # what a form adds to its file
PATIENCE = 5.0  # seconds to read what is refused: who is cut off in the middle sees no reason


class Refused(UserError):
    """A request that is not answered, with its status of HTTP, and the seconds to wait for."""

    def __init__(self, status: int, reason: str, retry_after: int = 0) -> None:
        super().__init__(reason)
        self.status, self.retry_after = status, retry_after

    @classmethod
    def of(cls, error: UserError) -> "Refused":
        """Return an error as one: it is the video's or an option's, if not the process's."""
        if isinstance(error, cls):
            return error
        return cls(500 if isinstance(error, LostProcess) else 422, str(error))

    def response(self) -> JSONResponse:
        """Return it as a response."""
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse({"error": str(self)}, self.status, headers)


class UploadQuota:
    """A layer before an ASGI application that refuses uploads when a folder is full.

    A request is counted by the length that it states, which the server enforces; one that states
    none is refused. Remains of uploads that broke off are deleted.

    Args:
        app: The application.
        folder: Where it stores uploads.
        most_mb: Most megabytes of the folder.
    """

    def __init__(self, app: ASGIApp, folder: Path, most_mb: float) -> None:
        self.app, self.folder, self.most_mb = app, folder, most_mb
        self._arriving = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT"):
            await self.app(scope, receive, send)
            return
        body = _Body(receive, send)
        length = int(dict(scope["headers"]).get(b"content-length", -1)) / 1e6
        refused = None
        if length < 0:
            refused = Refused(411, "state the length of what you send (Content-Length)")
        elif self._stored_mb() + self._arriving + length > self.most_mb:
            text = f"it stores {self.most_mb:g} MB, and is full. Try again in {KEPT // 60} min"
            refused = Refused(503, text, KEPT)
        if refused:
            await refused.response()(scope, body.receive, body.send)
            return
        self._arriving += length
        try:
            await self.app(scope, body.receive, body.send)
        finally:
            self._arriving -= length

    def _stored_mb(self) -> float:
        stored = 0
        for file in self.folder.rglob("*"):
            with suppress(FileNotFoundError):  # old files are deleted meanwhile
                status = file.stat()
                is_remains = file.parent == self.folder and file.name.startswith("tmp")
                if is_remains and file.is_file() and time.time() - status.st_mtime > KEPT:
                    file.unlink()
                elif file.is_file():
                    stored += status.st_size
        return stored / 1e6


class _Body:
    """The two ends of a request, whose body is read to its end before an error is sent."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._has_more = True

    async def receive(self) -> Message:
        message = await self._receive()
        self._has_more = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._read_rest(), PATIENCE)
        await self._send(message)

    async def _read_rest(self) -> None:
        while self._has_more:
            await self.receive()


async def store_upload(request: Request, folder: Path, max_mb: float) -> tuple[Path, str]:
    """Store the video of a request: its body, or the file of a form.

    Returns:
        Its path in the folder, and what its sender calls it.

    Raises:
        Refused: If it is too large, or the form has no file.
    """
    length = int(request.headers["content-length"]) / 1e6
    is_form = request.headers.get("content-type", "").startswith("multipart/form-data")
    if length > max_mb + FORM_MB * is_form:
        raise Refused(413, f"a file must have at most {max_mb:g} MB, got {length:.1f} MB")
    title, content = request.query_params.get("name", "video"), request.stream()
    if is_form:
        upload = await _read_form(request)
        title, content = upload.filename or "video", _read_upload(upload)
    path = video_path(folder, title)
    with path.open("wb") as file:
        async for chunk in content:
            file.write(chunk)
    return path, title


def video_path(folder: Path, title: str) -> Path:
    """Return where a video is stored; its suffix is all that is the sender's choice."""
    suffix = re.search(r"\.\w{1,8}$", title, re.ASCII)
    return folder / f"video{suffix[0] if suffix else ''}"


async def _read_form(request: Request) -> UploadFile:
    try:
        form = await request.form(max_files=1, max_fields=1)
    except HTTPException as error:
        raise Refused(400, error.detail) from None
    for part in form.values():
        if isinstance(part, UploadFile):
            return part
    raise Refused(400, "the form has no file; send one as curl -F file=@video.mp4 does")


async def _read_upload(upload: UploadFile) -> AsyncGenerator[bytes, None]:
    while chunk := await upload.read(1 << 20):
        yield chunk
    await upload.close()
