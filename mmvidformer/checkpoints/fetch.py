"""Checkpoints by address: fetched once, checked, and kept in a cache."""

import hashlib
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from torch.hub import get_dir

from mmvidformer.checkpoints import published

HUB = "hf://"
PACKAGE = "package:"  # a file in mmvidformer/weights
SCHEMES = (HUB, published.PREFIX, "http://", "https://")
# Files of a repository on the HuggingFace hub. The first of the weights that exists is enough.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
CONFIGS = ("config.json", "preprocessor_config.json", "video_preprocessor_config.json")


def is_address(source: object) -> bool:
    """Whether a source is an address in one of ``SCHEMES``."""
    return str(source).startswith(SCHEMES)


def fetch(source: str | Path) -> Path:
    """Return the local file or folder of a source; addresses are fetched unless they are cached.

    Processes that need the same file wait for the first one. A file is in the cache only if it is
    complete, and is checked when it is fetched. URLs are cached in ``TORCH_HOME/hub/checkpoints``,
    repositories in the cache of ``huggingface_hub``, whose settings (token, mirror, offline mode)
    apply.

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
    if address.startswith(PACKAGE):
        return Path(__file__).parents[1] / "weights" / address.removeprefix(PACKAGE)
    if not is_address(address):
        raise ValueError(f"{source} is an image model: set init_from=dict(source={address!r})")
    return (_from_hub if address.startswith(HUB) else _from_url)(address, row)


def is_cached(source: str | Path) -> bool:
    """Whether a source is a local path, comes with the package, or was fetched before."""
    from huggingface_hub import try_to_load_from_cache

    row = published.row_of(source)
    address = row.address if row else str(source)
    if address.startswith(HUB):
        repo, _, revision = address.removeprefix(HUB).partition("@")
        paths = (try_to_load_from_cache(repo, name, revision=revision or None) for name in WEIGHTS)
        return any(isinstance(path, str) for path in paths)
    return not is_address(address) or cached_path(address).is_file()


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
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _from_url(url: str, row: published.Published | None) -> Path:
    from filelock import FileLock
    from huggingface_hub.file_download import http_get

    path = cached_path(url)
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.is_file():
            return path
        try:
            with part.open("wb") as file:
                http_get(url, file)  # tries again if the connection breaks
            with part.open("rb") as file:
                if file.read(256).lstrip()[:1] in (b"", b"<"):
                    raise ValueError(f"{url} is a web page, or empty")
            sha256 = row.sha256 if row else ""
            if sha256 and not (found := hash_of(part)).startswith(sha256):
                raise ValueError(f"{url} has SHA-256 {found}, expected {sha256}")
            part.replace(path)
        except ValueError:
            raise
        except Exception as error:  # versions of the hub have other HTTP libraries
            reason = str(error).partition("\n")[0]
            what = f"{url} cannot be fetched into {path.parent}: {reason}"
            raise OSError(f"{what}; {_other_source(row)}") from error
        finally:
            part.unlink(missing_ok=True)
    return path


def _from_hub(address: str, row: published.Published | None) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError

    repo, _, revision = address.removeprefix(HUB).partition("@")
    get = partial(hf_hub_download, repo, revision=revision or None)
    try:
        try:
            path = Path(get(WEIGHTS[0]))
        except EntryNotFoundError:
            path = Path(get(WEIGHTS[1]))
        for name in CONFIGS:
            with suppress(EntryNotFoundError):
                get(name)
    except (OSError, EntryNotFoundError, HFValidationError) as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        raise OSError(f"{address} cannot be fetched: {reason}; {_other_source(row)}") from error
    # The cache of the hub names a large file by its hash.
    stated = path.resolve().name
    if row and len(stated) == 64 and not stated.startswith(row.sha256):
        raise ValueError(f"{address} has SHA-256 {stated}, expected {row.sha256}")
    return path.parent


def _other_source(row: published.Published | None) -> str:
    """Say where else the weights of an address may be."""
    if row and (other := published.same_weights(row)):
        return f"{published.PREFIX}{other.name} has the same weights"
    return "if you have the file, give its path"
