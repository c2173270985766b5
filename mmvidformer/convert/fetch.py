"""Checkpoints by address: fetched once, checked, and kept in a cache."""

import hashlib
import logging
import re
import shutil
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from torch.hub import get_dir
from tqdm import tqdm

from mmvidformer.convert import published

HUB = "hf://"
SCHEMES = (HUB, published.PREFIX, "http://", "https://")
# Files of a repository on the HuggingFace hub. The first of the weights that exists is enough.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
FILES = ("config.json", "preprocessor_config.json", *WEIGHTS)
ATTEMPTS = 3
TIMEOUT = 30.0  # seconds without data
CHUNK = 1 << 20

logger = logging.getLogger("mmvidformer")


def is_address(source: object) -> bool:
    """Whether a source is an address in one of ``SCHEMES``."""
    return str(source).startswith(SCHEMES)


def fetch(source: str | Path) -> Path:
    """Return the local file or folder of a source; addresses are fetched unless they are cached.

    Processes that need the same file wait for the first one. A file is in the cache only if it is
    complete. URLs are cached in ``TORCH_HOME/hub/checkpoints``, repositories in the cache of
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
    if not is_address(address):
        raise ValueError(f"{source} is an image model: set init_from=dict(source={address!r})")
    get = _from_hub if address.startswith(HUB) else _from_url
    return get(address, row)


def cached_path(url: str) -> Path:
    """Where the file of a URL is cached: host and path of the URL, as folders."""
    parts = urlsplit(url)
    names = f"{parts.netloc}{parts.path}{parts.query.replace('dl=1', '')}".split("/")
    safe = [re.sub(r"[^\w.-]", "_", name) for name in names if name.strip(".")]
    return Path(get_dir(), "checkpoints", *safe)


def hash_of(path: Path) -> str:
    """SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _announce(address: str, row: published.Published | None) -> None:
    logger.info("fetching %s", address)
    if row and "-NC" in row.license:
        logger.warning("%s: the license %s forbids commercial use", row.name, row.license)


def _from_url(url: str, row: published.Published | None) -> Path:
    from filelock import FileLock

    path = cached_path(url)
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.is_file():
            return path
        _announce(url, row)
        try:
            _receive(url, part)
            _check(url, part, row.sha256 if row else "")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    return path


def _receive(url: str, part: Path) -> None:
    request = Request(url, headers={"User-Agent": "mmvidformer"})
    for left in reversed(range(ATTEMPTS)):
        try:
            with (
                urlopen(request, timeout=TIMEOUT) as response,  # nosec B310
                part.open("wb") as file,
            ):
                total = int(response.headers.get("Content-Length") or 0)
                with tqdm.wrapattr(file, "write", total=total or None, disable=None) as out:
                    shutil.copyfileobj(response, out, CHUNK)
                if total > file.tell():
                    raise ConnectionError(f"it broke off after {file.tell()} of {total} bytes")
            return
        except (OSError, HTTPException) as error:
            broken = isinstance(error, ConnectionError | TimeoutError | HTTPException)
            if not (broken and left):
                reason = getattr(error, "reason", error)
                raise OSError(f"{url} cannot be fetched into {part.parent}: {reason}") from error


def _from_hub(address: str, row: published.Published | None) -> Path:
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    repo, _, given = address.removeprefix(HUB).partition("@")
    revision = given or None
    missing: Exception = FileNotFoundError(f"it has neither {' nor '.join(WEIGHTS)}")
    try:
        cached = {name: try_to_load_from_cache(repo, name, revision=revision) for name in FILES}
        fresh = not any(isinstance(cached[name], str) for name in WEIGHTS)
        if fresh:
            _announce(address, row)
        for name in FILES:
            if not (fresh or isinstance(cached[name], str | None)):
                continue  # known not to exist
            try:
                path = Path(hf_hub_download(repo, name, revision=revision))
            except EntryNotFoundError as error:
                if isinstance(error, LocalEntryNotFoundError) and fresh:
                    raise  # the hub cannot be reached
                missing = error
                continue
            if name in WEIGHTS:
                # The cache names a large file by the hash that the hub states for it.
                blob = path.resolve()
                stated = blob.name if len(blob.name) == 64 else ""
                _check(address, blob, row.sha256 if row and row.sha256 else stated)
                return path.parent
        raise missing
    except (OSError, EntryNotFoundError, HFValidationError) as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        raise OSError(f"{address} cannot be fetched: {reason}") from error


def _check(source: str, path: Path, sha256: str) -> None:
    """Delete a file with another hash, or a web page, and raise a ``ValueError``."""
    with path.open("rb") as file:
        page = file.read(256).lstrip()[:1] in (b"", b"<")
    found = hash_of(path) if sha256 else ""
    if page or not found.startswith(sha256):
        path.unlink()
        wrong = "is a web page, or empty" if page else f"has SHA-256 {found}, expected {sha256}"
        raise ValueError(f"{source} {wrong}")
