"""Checkpoints by address: fetched once, checked, and kept in a cache."""

import errno
import hashlib
import logging
import re
import shutil
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from torch.hub import get_dir
from tqdm import tqdm

from mmvidformer.convert import published

HUB = "hf://"
SCHEMES = (HUB, published.PREFIX, "http://", "https://")
# Files of a repository on the HuggingFace hub. One of the weights is fetched, and all settings.
HUB_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
HUB_SETTINGS = ("config.json", "preprocessor_config.json")
ATTEMPTS = 3
TIMEOUT = 30.0  # seconds without data
CHUNK = 1 << 20

logger = logging.getLogger("mmvidformer")


def is_address(source: object) -> bool:
    """Whether a source is an address in one of ``SCHEMES``."""
    return str(source).startswith(SCHEMES)


def fetch(source: str | Path) -> Path:
    """Return the local file or folder of a source; addresses are fetched unless they are cached.

    Processes that fetch the same address wait for the first one. A file is in the cache only if it
    is complete. URLs are cached in ``TORCH_HOME/hub/checkpoints``, repositories in the cache of
    ``huggingface_hub``, whose settings (token, mirror, offline mode) apply.

    Args:
        source: ``hf://ORG/NAME[@REVISION]``, ``published://NAME``, URL, or local path.

    Raises:
        KeyError: If there is no published checkpoint of that name.
        OSError: If the address cannot be reached or lacks the file, or the disk is full.
        ValueError: If a file does not have its hash, or is a web page.
    """
    if not is_address(source):
        return Path(source).expanduser()
    row = published.row_of(source)
    address = row.address if row else str(source)
    sha256 = row.sha256 if row else ""

    def announce() -> None:
        logger.info("fetching %s", address)
        if row and row.restriction:
            logger.warning(row.restriction)

    if address.startswith(HUB):
        return _from_hub(address, sha256, announce)
    if is_address(address):
        return _from_url(address, sha256, announce)
    raise ValueError(f"{source} is an image model: set init_from=dict(source={address!r})")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def cached_path(url: str) -> Path:
    """Where the file of a URL is cached: a folder per host, as in the URL."""
    parts = urlsplit(url)
    query = "" if parts.query in ("", "dl=1") else f"?{parts.query}"
    names = [parts.netloc, *f"{parts.path}{query}".split("/")]
    safe = [re.sub(r"[^\w.=-]", "_", name) for name in names if name.strip(".")]
    return Path(get_dir(), "checkpoints", *safe)


def _from_url(url: str, sha256: str, announce: Callable[[], None]) -> Path:
    from filelock import FileLock

    path = cached_path(url)
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.is_file():
            announce()
            part = path.with_name(f"{path.name}.part")
            _receive(url, part)
            _check_content(url, part, sha256)
            part.replace(path)
            _tag_file(part).unlink(missing_ok=True)
    return path


def _receive(url: str, part: Path) -> None:
    """Fetch a file; a broken connection is tried again, from where it broke if possible."""
    for left in reversed(range(ATTEMPTS)):
        try:
            return _append(url, part)
        except HTTPError as error:
            if error.code != 416:  # the file became shorter
                raise OSError(f"{url}: HTTP {error.code} {error.reason}") from error
            part.unlink()
        except URLError as error:
            raise OSError(f"{url} cannot be reached: {error.reason}") from error
        except (HTTPException, ConnectionError, TimeoutError) as error:
            if not left:
                raise OSError(f"{url} broke off: {error}; try again to resume") from error
        except OSError as error:
            part.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            hint = "free some, or set TORCH_HOME to another folder"
            raise OSError(f"{part.parent} has no space for {url}; {hint}") from error


def _append(url: str, part: Path) -> None:
    """Append to a part what is missing, or write it anew if the file at the URL has changed."""
    headers = {"User-Agent": "mmvidformer"}
    tag = _tag_file(part)
    done = part.stat().st_size if part.is_file() and tag.is_file() else 0
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": tag.read_text()}
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
        if response.status != 206:
            done = 0
        tag.unlink(missing_ok=True)
        strong = response.headers.get("ETag", "W/")
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        if total and shutil.disk_usage(part.parent).free < total - done:
            raise OSError(errno.ENOSPC, "no space left")
        with (
            open(part, "ab" if done else "wb") as file,
            tqdm(initial=done, total=total, unit="B", unit_scale=True, disable=None) as bar,
        ):
            if not strong.startswith("W/"):
                tag.write_text(strong)
            while chunk := response.read(CHUNK):
                done += file.write(chunk)
                bar.update(len(chunk))
    if total not in (None, done):
        raise ConnectionError(f"{done} of {total} bytes came")


def _tag_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.etag")


def _check_content(source: str, path: Path, sha256: str) -> None:
    """Delete a file with another hash, or a web page, and raise a ``ValueError``."""
    with path.open("rb") as file:
        head = file.read(256).lstrip()
    found = sha256_of(path) if sha256 else ""
    if head[:1] in (b"", b"<"):
        reason = "is empty" if not head else "is a web page, not a checkpoint; open it in a browser"
    elif not found.startswith(sha256):
        reason = f"has SHA-256 {found}, expected {sha256}; it changed, or was damaged on the way"
    else:
        return
    path.unlink()
    raise ValueError(f"{source} {reason}")


def _from_hub(address: str, sha256: str, announce: Callable[[], None]) -> Path:
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    repo, _, revision = address.removeprefix(HUB).partition("@")
    options = {"repo_id": repo, "revision": revision or None}
    found: dict[str, Path] = {}
    reason = f"it has neither {' nor '.join(HUB_WEIGHTS)}"
    try:
        cached = [try_to_load_from_cache(filename=name, **options) for name in HUB_WEIGHTS]
        if not any(isinstance(path, str) for path in cached):
            announce()
        for name in (*HUB_SETTINGS, *HUB_WEIGHTS):
            try:
                found[name] = Path(hf_hub_download(filename=name, **options))
            except LocalEntryNotFoundError as error:
                reason = f"it is not in the cache, and {_first_line(error.__cause__ or error)}"
            except EntryNotFoundError:
                continue
            if name in HUB_WEIGHTS and name in found:
                break
    except (OSError, HFValidationError) as error:
        raise OSError(f"{address} cannot be fetched: {_first_line(error)}") from error
    weights = next((found[name] for name in HUB_WEIGHTS if name in found), None)
    if weights is None:
        raise FileNotFoundError(f"{address} cannot be fetched: {reason}")
    # The cache names a large file by the hash that the hub states for it.
    blob = weights.resolve()
    stated = blob.name if re.fullmatch(r"[0-9a-f]{64}", blob.name) else ""
    _check_content(address, blob, sha256 or stated)
    return weights.parent


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
