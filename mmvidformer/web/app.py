"""The addresses of the server."""

import hmac

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse

import mmvidformer
from mmvidformer.errors import UserError
from mmvidformer.web.addresses import is_allowed
from mmvidformer.web.query import describe_query, read_query
from mmvidformer.web.responses import RowsResponse
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
        server.metrics.add(request.url.path, refused.status, 0)
        return refused.response()

    async def check_token(request: Request) -> None:
        if server.token is None:
            return
        header = request.headers.get("authorization", "")
        if not hmac.compare_digest(header.encode(), f"Bearer {server.token}".encode()):
            raise Refused(401, "send the header Authorization: Bearer TOKEN")

    checked = [Depends(check_token)]
    body = {"content": {"application/octet-stream": BINARY, "multipart/form-data": FORM}}

    @app.post(
        "/predict",
        dependencies=checked,
        response_class=PlainTextResponse,
        response_model=None,
        openapi_extra=dict(requestBody=body, parameters=describe_query(list(server.models))),
    )
    async def predict(request: Request) -> RowsResponse:
        """Answer for a video: a line of JSON, or one for each of its parts."""
        query = dict(request.query_params)
        query.pop("name", None)
        model = query.pop("model", next(iter(server.models)))
        if model not in server.models:
            raise Refused(404, f"no model named {model!r}; there are {', '.join(server.models)}")
        asked = read_query(query)
        if asked.address and not is_allowed(asked.address, server.prefixes):
            raise Refused(403, "this server fetches no videos from that address")
        return RowsResponse(server, request, model, asked)

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
