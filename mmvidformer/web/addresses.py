"""Videos at addresses that the operator allows."""

from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    Request,
    build_opener,
)

from mmvidformer.errors import UserError

SILENCE = 30.0  # seconds without a byte
CHUNK = 1 << 18
# Names of hosts that may be in a private network; those of the internet may not lead there.
INTERNAL = ("localhost", ".local", ".internal")


def is_allowed(address: str, prefixes: Sequence[str]) -> bool:
    """Whether an address begins with one of the prefixes, and has no steps to a folder above."""
    steps = unquote(unquote(urlsplit(address).path)).replace("\\", "/").split("/")
    return address.startswith(tuple(prefixes)) and not {".", ".."} & {*steps}


def fetch_video(address: str, prefixes: Sequence[str], path: Path, max_mb: float) -> None:
    """Store a video that is at an address.

    It must be allowed, and redirections, too. Proxies are not used.

    Raises:
        UserError: If it is not allowed, is too large, does not come, or comes from elsewhere.
    """
    if not is_allowed(address, prefixes):
        raise UserError(f"{address}: the address is not allowed")
    opener = build_opener(ProxyHandler({}), _Http, _Https, _Redirections(prefixes))
    left = int(max_mb * 1e6)
    try:
        with opener.open(address, timeout=SILENCE) as answer, path.open("wb") as file:
            while chunk := answer.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise UserError(f"a file must have at most {max_mb:g} MB")
                file.write(chunk)
    except HTTPError as error:
        raise UserError(f"{address}: status {error.code}") from None
    except (OSError, HTTPException) as error:
        raise UserError(f"{address}: {getattr(error, 'reason', error)}") from None


class _Redirections(HTTPRedirectHandler):
    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = prefixes

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not is_allowed(newurl, self._prefixes):
            raise UserError(f"{req.full_url}: it leads to an address that is not allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Checked(HTTPConnection):
    """A connection on which nothing is asked of a private network that the name does not show."""

    def connect(self) -> None:
        super().connect()
        peer = ip_address(self.sock.getpeername()[0])
        if not (peer.is_global or self.host.endswith(INTERNAL) or _is_number(self.host)):
            self.close()
            raise UserError(f"{self.host} is in a private network; allow it by its number")


class _CheckedHttps(_Checked, HTTPSConnection):
    pass


class _Http(HTTPHandler):
    def http_open(self, req: Request) -> Any:
        return self.do_open(_Checked, req)


class _Https(HTTPSHandler):
    def https_open(self, req: Request) -> Any:
        return self.do_open(_CheckedHttps, req)


def _is_number(host: str) -> bool:
    try:
        return bool(ip_address(host.strip("[]")))
    except ValueError:
        return False
