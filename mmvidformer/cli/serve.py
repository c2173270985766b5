"""Answer for videos over HTTP: mmvidformer serve [MODEL ...].

Serves published models, and with --config and --checkpoint your own. POST /predict takes a video
and returns lines of JSON, the rows of demo --json. GET /models, /health and /metrics tell about it,
and /openapi.json describes all. SIGTERM ends it once what came before is answered.
Needs FastAPI and uvicorn, which Gradio brings: pip install "gradio>=6".
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mmvidformer.engine.offer_options import ServeOptions
from mmvidformer.engine.options import parse_options
from mmvidformer.engine.stops import stopped_by_signals


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    options = parse_options(ServeOptions, argv, __doc__)
    token, host = options.read_token(), options.host
    from mmvidformer.cli.offering import fetch_offer, listen

    models = fetch_offer(options, package="fastapi", clips=None)
    import uvicorn

    from mmvidformer.web.app import build_app
    from mmvidformer.web.server import Server

    if token is None and host not in ("127.0.0.1", "::1", "localhost"):
        print("anyone who reaches this machine can use it: see --token", file=sys.stderr)
    with stopped_by_signals(0), TemporaryDirectory(prefix="mmvidformer_serve_") as folder:
        server = Server(models, options, Path(folder), token)
        try:
            server.start()
            http = uvicorn.Server(uvicorn.Config(build_app(server), log_level="warning"))
            listening = listen(host, options.port)
            where = f"[{host}]" if ":" in host else host
            print(f"http://{where}:{listening.getsockname()[1]} answers", file=sys.stderr)
            http.run(sockets=[listening])
        finally:
            server.kill()
