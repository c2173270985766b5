"""The addresses of the server."""

import hmac
from functools import partial
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse

import mmvidformer
from mmvidformer.errors import UserError
from mmvidformer.web.addresses import is_allowed
from mmvidformer.web.query import Asked, describe_query, read_query
from mmvidformer.web.responses import RowsResponse
from mmvidformer.web.rows import answer_rows
from mmvidformer.web.running_stream import push_piece
from mmvidformer.web.server import Server
from mmvidformer.web.uploads import Refused, UploadQuota

BINARY = {"schema": {"type": "string", "format": "binary"}}
FORM = {"schema": {"type": "object", "properties": {"file": BINARY["schema"]}}}


def build_app(server: Server) -> FastAPI:
    """Build the application of FastAPI for a server that was started."""
    app = FastAPI(title="mmvidformer", version=mmvidformer.__version__)
    app.add_middleware(UploadQuota, folder=server.folder, most_mb=server.limits.max_stored_mb)

    @app.exception_handler(UserError)
    async def refuse(request: Request, error: UserError) -> JSONResponse:
        refused = Refused.of(error)
        server.metrics.add(request.scope["route"].path, refused.status, 0)
        return refused.response()

    async def check_token(request: Request) -> None:
        if server.token is None:
            return
        header = request.headers.get("authorization", "")
        if not hmac.compare_digest(header.encode(), f"Bearer {server.token}".encode()):
            raise Refused(401, "send the header Authorization: Bearer TOKEN")

    checked = [Depends(check_token)]
    rows: dict[str, Any] = dict(
        dependencies=checked, response_class=PlainTextResponse, response_model=None
    )
    parameters = describe_query(list(server.models))
    body = {"content": {"application/octet-stream": BINARY, "multipart/form-data": FORM}}

    def read_request(request: Request) -> tuple[str, Asked]:
        query = dict(request.query_params)
        query.pop("name", None)
        model = query.pop("model", next(iter(server.models)))
        if model not in server.models:
            raise Refused(404, f"no model named {model!r}; there are {', '.join(server.models)}")
        return model, read_query(query)

    @app.post("/predict", **rows, openapi_extra=dict(requestBody=body, parameters=parameters))
    async def predict(request: Request) -> RowsResponse:
        """Answer for a video: a line of JSON, or one for each of its parts."""
        model, asked = read_request(request)
        if asked.fps:
            raise UserError("fps is for streams")
        if asked.address and not is_allowed(asked.address, server.prefixes):
            raise Refused(403, "this server fetches no videos from that address")
        work = partial(answer_rows, asked=asked, prefixes=server.prefixes)
        return RowsResponse(server, request, server.pool, model, work, asked.address)

    @app.post("/streams", dependencies=checked, openapi_extra=dict(parameters=parameters))
    async def open_stream(request: Request) -> dict[str, str]:
        """Begin a stream of frames at ``fps``; its key is part of its address."""
        model, asked = read_request(request)
        if asked.address:
            raise UserError("a stream has no address; send its frames")
        return dict(stream=await server.streams.open(model, asked))

    @app.post("/streams/{key}", **rows)
    async def push(request: Request, key: str) -> RowsResponse:
        """Take the next picture (JPEG, PNG) or short video, and answer what is known after it."""
        stream = server.streams.get(key)
        work = partial(push_piece, key=key, asked=stream.asked)
        end = partial(server.streams.close, key)
        return RowsResponse(server, request, stream.pool, stream.model, work, at_loss=end)

    @app.delete("/streams/{key}", **rows)
    async def end_stream(request: Request, key: str) -> RowsResponse:
        """End a stream, and answer what was not known before."""
        stream = server.streams.get(key)
        server.streams.close(key)
        work = partial(push_piece, key=key, asked=stream.asked)
        return RowsResponse(server, request, stream.pool, stream.model, work, "stream")

    @app.get("/models", dependencies=checked)
    async def models() -> dict[str, dict]:
        """Tell what the models answer for, their options and classes, by name."""
        return server.about

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Tell that requests are answered."""
        return {"status": "ok"}

    @app.get("/metrics", dependencies=checked, response_class=PlainTextResponse)
    async def metrics() -> str:
        """Tell counts of requests and how long they took, in Prometheus's format."""
        return server.metrics_text()

    return app
