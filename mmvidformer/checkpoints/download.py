"""Checkpoints by address: downloaded once, checked, and kept in a cache."""

import hashlib
import re
import shutil
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from torch.hub import get_dir
from tqdm import tqdm

from mmvidformer.checkpoints.published import PREFIX, Published, row_of, same_weights
from mmvidformer.checkpoints.reading import CONFIGS, WEIGHTS
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.cache import local_copy
from mmvidformer.storage.errors import StorageError
from mmvidformer.storage.files import PROTOCOLS

HUB = "hf://"
PACKAGE = "package:"  # a file in mmvidformer/weights
WEB = ("http://", "https://")
OBJECT_STORAGE = tuple(f"{name}://" for name in PROTOCOLS if f"{name}://" not in WEB)
STARTS = (HUB, PREFIX, *WEB, *OBJECT_STORAGE)
TRIES = 5  # connections that break before they bring more of a file
SILENCE = 60  # seconds without data after which a connection counts as broken


def is_address(source: object) -> bool:
    """Whether a source is an address in one of ``STARTS``."""
    return str(source).startswith(STARTS)


def fetch(source: str | Path) -> Path:
    """Return the local file or folder of a source; addresses are fetched unless they are cached.

    Processes that need the same file wait for the first one. A file is in the cache only if it is
    complete, and is checked when it is fetched. URLs are cached in ``TORCH_HOME/hub/checkpoints``,
    repositories in the cache of ``huggingface_hub``, whose settings (token, mirror, offline mode)
    apply.

    Args:
        source: ``hf://ORG/NAME[@REVISION]``, ``published://NAME``, URL, address in object storage
            (``OBJECT_STORAGE``), or local path.

    Raises:
        KeyError: If there is no published checkpoint of that name.
        OSError: If the address cannot be reached or lacks the file, or the disk is full.
        UserError: If a file does not have its hash, or is a web page.
    """
    if not is_address(source):
        return Path(source).expanduser()
    row = row_of(source)
    address = row.address if row else str(source)
    if address.startswith(OBJECT_STORAGE):
        return local_copy(address)
    if address.startswith(PACKAGE):
        return Path(__file__).parents[1] / "weights" / address.removeprefix(PACKAGE)
    if not is_address(address):
        raise UserError(f"{source} is an image model: set init_from=dict(source={address!r})")
    return (_from_hub if address.startswith(HUB) else _from_url)(address, row)


def is_cached(source: str | Path) -> bool:
    """Whether a source is a local path, comes with the package, or was fetched before.

    A repository of several files of weights counts as not fetched.
    """
    from huggingface_hub import try_to_load_from_cache

    row = row_of(source)
    address = row.address if row else str(source)
    if not address.startswith(HUB):
        return not is_address(address) or cached_path(address).is_file()
    repo, revision = _split_hub_address(address)
    paths = (try_to_load_from_cache(repo, name, revision=revision) for name in WEIGHTS)
    return any(isinstance(path, str) for path in paths)


def cached_path(url: str) -> Path:
    """Where the file of a URL is cached: host and path of the URL, as folders."""
    parts = urlsplit(url)
    names = f"{parts.netloc}{parts.path}{parts.query.replace('dl=1', '')}".split("/")
    safe_names = [re.sub(r"[^\w.-]", "_", name) for name in names if name.strip(".")]
    return Path(get_dir(), "checkpoints", *safe_names)


def hash_of(path: Path) -> str:
    """SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _from_url(url: str, row: Published | None) -> Path:
    from filelock import FileLock

    path = cached_path(url)
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.is_file():
            return path
        try:
            _download(url, part)
            _check(url, part, row)
            part.replace(path)
        except OSError as error:
            reason = str(error).partition("\n")[0]
            raise StorageError(
                f"{url} cannot be fetched into {path.parent}: {reason}; {_other_source(row)}"
            ) from error
        finally:
            part.unlink(missing_ok=True)
    return path


def _download(url: str, path: Path) -> None:
    """Download a file; where the connection breaks or falls silent, go on from there.

    This needs a server that knows ranges and tells a tag of the content; others begin again.
    """
    path.write_bytes(b"")
    tag, tries = None, TRIES
    while tries:
        done = path.stat().st_size
        headers = {"User-Agent": "mmvidformer"}
        if done and tag:
            headers |= {"Range": f"bytes={done}-", "If-Range": tag}
        with urlopen(Request(url, headers=headers), timeout=SILENCE) as answer:
            tag = answer.headers["ETag"]
            if answer.status != HTTPStatus.PARTIAL_CONTENT:
                path.write_bytes(b"")
            size = path.stat().st_size + int(answer.headers["Content-Length"] or 0)
            with suppress(IncompleteRead, TimeoutError, ConnectionError):
                _append(answer, path, size)
        if path.stat().st_size >= size:
            return
        tries = TRIES if path.stat().st_size > done else tries - 1
    raise OSError(f"the connection broke {TRIES} times at the same place")


def _append(answer: HTTPResponse, path: Path, size: int) -> None:
    """Append the body of an answer to a file, which will have ``size`` bytes then, with a bar."""
    done = path.stat().st_size
    bar = dict(total=size or None, initial=done, unit="B", unit_scale=True, unit_divisor=1024)
    with path.open("ab") as file, tqdm.wrapattr(file, "write", **bar) as progress:
        shutil.copyfileobj(answer, progress)


def _check(url: str, path: Path, row: Published | None) -> None:
    with path.open("rb") as file:
        if file.read(256).lstrip()[:1] in (b"", b"<"):
            raise UserError(f"{url} is a web page, or empty")
    if row and row.sha256:
        digest = hash_of(path)
        if not digest.startswith(row.sha256):
            raise UserError(f"{url} has SHA-256 {digest}, expected {row.sha256}")


def _from_hub(address: str, row: Published | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    repo, revision = _split_hub_address(address)
    try:
        for name in WEIGHTS:
            stem, suffix = name.split(".")
            shards = [f"{name}.index.json", f"{stem}-*.{suffix}"]
            patterns = [*CONFIGS, name, *shards]
            folder = Path(snapshot_download(repo, revision=revision, allow_patterns=patterns))
            if (folder / name).is_file():
                _check_cached(address, folder / name, row)
                return folder
            if (folder / f"{name}.index.json").is_file():
                return folder
        raise MissingFile(f"it has no {' or '.join(WEIGHTS)}, nor an index of one")
    except (OSError, HFValidationError) as error:
        lines = [line for line in str(error.__cause__ or error).splitlines() if line]
        reason = " ".join(lines[:2])  # the second one names the file
        raise StorageError(
            f"{address} cannot be fetched: {reason}; {_other_source(row)}"
        ) from error


def _check_cached(address: str, path: Path, row: Published | None) -> None:
    """Check a file by its name: the cache of the hub names a large file by its hash."""
    digest = path.resolve().name
    if row and len(digest) == 64 and not digest.startswith(row.sha256):
        raise UserError(f"{address} has SHA-256 {digest}, expected {row.sha256}")


def _split_hub_address(address: str) -> tuple[str, str | None]:
    repo, _, revision = address.removeprefix(HUB).partition("@")
    return repo, revision or None


def _other_source(row: Published | None) -> str:
    """Say where else the weights of an address may be."""
    if row and (other := same_weights(row)):
        return f"{PREFIX}{other.name} has the same weights"
    return "if you have the file, give its path"
