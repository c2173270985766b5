"""Serve a model on a cluster of Ray: python examples/ray_serve.py, or serve run ray_serve:app.

POST a video to http://127.0.0.1:8000/predict?window=2 and get lines of JSON, as from
``mmvidformer serve`` (docs/serve.md). Each replica has the model and gathers its requests into
batches. It reads videos in the replicas, without the limits of ``serve``: for clients whom you
trust. It needs ray[serve].
"""

import asyncio
import json
import os
import tempfile

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mmvidformer.apis import Recognizer
from mmvidformer.errors import UserError

MODEL = os.environ.get("MODEL", "camera_motion")  # name, folder or address


@serve.deployment(num_replicas=2, max_ongoing_requests=8, max_queued_requests=32)
class Answers:
    """A replica: a model, and what answers requests of HTTP with it."""

    def __init__(self, model: str) -> None:
        self.recognizer = Recognizer(model)
        self.batches = self.recognizer.gathered(size=8, delay=0.01)
        self.batches.__enter__()  # as long as the replica lives

    async def __call__(self, request: Request) -> Response:
        """Answer a request, whose body is a video and whose query has numbers."""
        options = {name: float(value) for name, value in request.query_params.items()}
        try:
            rows = await asyncio.to_thread(self.answer, await request.body(), options)
        except UserError as error:
            return JSONResponse({"error": str(error)}, 422)
        return Response("".join(f"{json.dumps(row)}\n" for row in rows))

    def answer(self, content: bytes, options: dict[str, float]) -> list[dict]:
        """Return the rows of a video."""
        with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
            file.write(content)
            file.flush()
            return [answer.row(5) for answer in self.recognizer.answers(file.name, **options)]


app = Answers.bind(MODEL)
if __name__ == "__main__":
    serve.run(app, route_prefix="/predict", blocking=True)
