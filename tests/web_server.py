"""A server on this machine that also answers as the HuggingFace hub does."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0" * 40  # of all repositories


class Web(ThreadingHTTPServer):
    """The server.

    Attributes:
        files: Content by path.
        cut: Number of downloads of a path that break off in the middle.
        silent: Number of downloads of a path that stop in the middle, with an open connection.
        fetched: Number of downloads by path.
        sent: Number of bytes that were sent by path.
        knows_ranges: Whether a download may begin in the middle.
        repositories: What was asked for with each repository that a client has created.
        tokens: What clients that upload name as their token.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.files: dict[str, bytes] = {}
        self.cut: Counter = Counter()
        self.silent: Counter = Counter()
        self.fetched: Counter = Counter()
        self.sent: Counter = Counter()
        self.knows_ranges = False
        self.repositories: dict[str, dict] = {}
        self.tokens: set[str | None] = set()

    def url(self, path: str) -> str:
        """Address of a path, such as ``'/a.pth'``."""
        return f"http://127.0.0.1:{self.server_port}{path}"

    def add(self, path: str, content: bytes) -> str:
        """Add a file and return its address."""
        self.files[path] = content
        return self.url(path)

    def add_repository(self, name: str, folder: Path, revision: str = "main") -> None:
        """Add the files of a folder as a repository of the hub."""
        self.add_files(name, {file.name: file.read_bytes() for file in folder.iterdir()}, revision)

    def add_files(self, name: str, files: Mapping[str, bytes], revision: str = "main") -> None:
        """Add files as a repository of the hub."""
        self.add_listing(name, files, revision)
        for commit in (revision, COMMIT):
            for file, content in files.items():
                self.files[f"/{name}/resolve/{commit}/{file}"] = content

    def add_listing(self, name: str, files: Mapping[str, bytes], revision: str = "main") -> None:
        """Add what the interface of the hub says of the files of a repository."""
        siblings = [dict(rfilename=file) for file in files]
        tree = [
            dict(type="file", path=file, size=len(content), oid=COMMIT)
            for file, content in files.items()
        ]
        info = dict(id=name, sha=COMMIT, siblings=siblings)
        self.files[f"/api/models/{name}/revision/{revision}"] = json.dumps(info).encode()
        # Its address has a query, which does not matter here.
        self.files[f"/api/models/{name}/tree/{COMMIT}"] = json.dumps(tree).encode()


class _Answers(BaseHTTPRequestHandler):
    server: Web

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self.server.fetched[self.path] += 1
        self._answer(body=True)

    def do_POST(self) -> None:
        """Answer what ``huggingface_hub`` asks when it creates a repository and uploads files."""
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        name = "/".join(self.path.split("/")[3:5])
        self.server.tokens.add(self.headers["Authorization"])
        status, answer = 200, {}
        if self.path == "/api/repos/create":
            asked = json.loads(sent)
            name = f"{asked['organization']}/{asked['name']}"
            status = 409 if name in self.server.repositories else 200
            if status == 200:  # hub 0.34 asks for its state before it uploads
                self.server.add_listing(name, {})
            is_private = asked.get("private", asked.get("visibility") == "private")  # since 1.0
            self.server.repositories.setdefault(name, {"private": is_private})
            answer = dict(url=self.server.url(f"/{name}"), error="it exists")
        elif "/preupload/" in self.path:
            paths = [file["path"] for file in json.loads(sent)["files"]]
            rows = [dict(path=path, uploadMode="regular", shouldIgnore=False) for path in paths]
            answer = dict(files=rows)
        elif "/commit/" in self.path:
            rows = [json.loads(line) for line in sent.splitlines()]
            files = [row["value"] for row in rows if row["key"] == "file"]
            contents = {file["path"]: base64.b64decode(file["content"]) for file in files}
            self.server.add_files(name, contents)
            url = self.server.url(f"/{name}/commit/{COMMIT}")
            answer = dict(commitUrl=url, commitOid=COMMIT)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, body: bool) -> None:
        files, path = self.server.files, self.path
        content = files.get(path, files.get(path.partition("?")[0]))
        if content is None:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        digest = hashlib.sha256(content).hexdigest()
        asked, known = self.headers["Range"], self.headers["If-Range"] == f'"{digest}"'
        if asked and known and self.server.knows_ranges:
            content = content[int(asked.removeprefix("bytes=").rstrip("-")) :]
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{digest}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            broken = self.server.cut[self.path] > 0
            self.server.cut[self.path] -= 1
            content = content[: len(content) // 2] if broken else content
            self.server.sent[self.path] += len(content)
            if self.server.silent[self.path] > 0:
                self.server.silent[self.path] -= 1
                self.rfile.read(1)  # until the other side hangs up
                return
            self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass
