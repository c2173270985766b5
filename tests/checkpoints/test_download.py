"""Downloads: they are complete or not there, and faults have messages."""

import errno
import io
import multiprocessing
import os
import pickle
import time
from http.client import IncompleteRead
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants, file_download

from mmvidformer.checkpoints import download, load_checkpoint
from mmvidformer.checkpoints.download import cached_path, fetch, hash_of
from tests.web_server import COMMIT

SIZE = 3 << 20


def weights(count: int = 4) -> bytes:
    buffer = io.BytesIO()
    torch.save({"state_dict": {"w": torch.arange(count)}}, buffer)
    return buffer.getvalue()


def files_in_cache(tmp_path: Path) -> set[str]:
    return {p.name for p in (tmp_path / "torch").rglob("*") if p.is_file() and p.suffix != ".lock"}


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def test_a_file_is_fetched_once(web, tmp_path: Path) -> None:
    url = web.add("/scenic/vivit/checkpoint", weights())
    path = fetch(url)
    assert path == fetch(url) and web.fetched["/scenic/vivit/checkpoint"] == 1
    assert path.read_bytes() == weights()
    assert path.parts[-3:] == ("scenic", "vivit", "checkpoint")  # no other "checkpoint" is there
    assert files_in_cache(tmp_path) == {"checkpoint"}


def test_local_paths_are_kept() -> None:
    assert fetch("a/b.pth") == Path("a/b.pth") and fetch(Path("c")) == Path("c")
    assert fetch("~/b.pth") == Path.home() / "b.pth"


def test_paths_in_the_cache_stay_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", "/t")
    root = Path("/t/hub/checkpoints")
    assert cached_path("https://h.org/a/../../b c?id=1&x=/..") == root / "h.org/a/b_cid_1_x_"
    assert cached_path("https://h.org/a.pyth?dl=1") == root / "h.org/a.pyth"


def test_broken_connections_are_tried_again(web, tmp_path: Path, no_pause) -> None:
    url = web.add("/b.pth", weights(SIZE // 8))
    web.cut["/b.pth"] = 9
    with pytest.raises(OSError, match=r"b\.pth cannot be fetched into .*checkpoints"):
        fetch(url)
    assert not files_in_cache(tmp_path)
    web.cut["/b.pth"] = 2
    assert fetch(url).read_bytes() == weights(SIZE // 8)


def test_a_download_goes_on_where_it_broke_off(web, tmp_path: Path) -> None:
    url = web.add("/b.pth", weights(SIZE // 8))
    web.knows_ranges, web.cut["/b.pth"] = True, 8
    assert fetch(url).read_bytes() == weights(SIZE // 8)
    assert web.fetched["/b.pth"] == 9
    assert web.sent["/b.pth"] == len(weights(SIZE // 8))


def test_a_file_that_changes_in_between_is_fetched_anew(web, tmp_path: Path, monkeypatch) -> None:
    url = web.add("/b.pth", weights(SIZE // 8))
    web.knows_ranges, web.cut["/b.pth"] = True, 1
    changed = weights(SIZE // 8 + 1)
    append = download._append

    def append_and_change(*arguments: object) -> None:
        try:
            append(*arguments)
        finally:
            web.add("/b.pth", changed)

    monkeypatch.setattr(download, "_append", append_and_change)
    assert fetch(url).read_bytes() == changed


@pytest.mark.parametrize("error", [IncompleteRead(b""), TimeoutError("timed out"), None])
def test_every_way_to_break_is_tried_again(error, web, tmp_path: Path, monkeypatch) -> None:
    """Some versions of Python raise an error if a body is too short, others do not."""
    url, errors = web.add("/b.pth", weights(8)), [error]
    append = download._append

    def break_once(*arguments: object) -> None:
        if not errors:
            append(*arguments)
            return
        first = errors.pop()
        if first is not None:
            raise first

    monkeypatch.setattr(download, "_append", break_once)
    assert fetch(url).read_bytes() == weights(8) and not errors


def test_a_silent_connection_is_given_up(web, tmp_path: Path, monkeypatch) -> None:
    url = web.add("/b.pth", weights(8))
    monkeypatch.setattr(download, "SILENCE", 1)
    monkeypatch.setattr(download, "TRIES", 2)
    web.silent["/b.pth"] = 2
    with pytest.raises(OSError, match="the connection broke 2 times"):
        fetch(url)
    assert not files_in_cache(tmp_path)
    web.silent["/b.pth"] = 1
    assert fetch(url).read_bytes() == weights(8)


def test_missing_files_and_servers(web, tmp_path: Path, no_pause) -> None:
    with pytest.raises(OSError, match=r"/none\.pth cannot be fetched .*404"):
        fetch(web.url("/none.pth"))
    with pytest.raises(OSError, match=r"localhost:1/a\.pth cannot .*Connection refused"):
        fetch("http://localhost:1/a.pth")
    assert web.fetched["/none.pth"] == 1 and not files_in_cache(tmp_path)


def test_an_address_that_fails_names_another_source(web, table, tmp_path: Path, no_pause) -> None:
    check = {"input": "vivit", "logits": [0.1]}
    rows = [
        dict(name="a", address=web.url("/a.pth"), format="timm", check=check),
        dict(name="b", address="hf://org/name", format="timm", check=check),
        dict(name="c", address=web.url("/c.pth"), format="timm"),
    ]
    table(*rows)
    for source in ("published://a", web.url("/a.pth")):
        with pytest.raises(OSError, match="404.*; published://b has the same weights$"):
            fetch(source)
    with pytest.raises(OSError, match="404.*; published://a has the same weights$"):
        fetch("published://b")
    for source in ("published://c", web.url("/d.pth"), "hf://org/other"):
        with pytest.raises(OSError, match="404.*; if you have the file, give its path$"):
            fetch(source)


@pytest.mark.parametrize("content", [b"", b"\n<!DOCTYPE html><html>Sign in</html>"])
def test_web_pages_are_refused(content: bytes, web, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.pth is a web page, or empty"):
        fetch(web.add("/a.pth", content))
    assert not files_in_cache(tmp_path)


def test_hashes_are_checked(web, table, tmp_path: Path) -> None:
    url = web.add("/a.pth", weights())
    good = hash_of(fetch(web.add("/copy.pth", weights())))
    table(dict(name="a", address=url, format="timm", sha256="00ff"))
    with pytest.raises(ValueError, match=f"a.pth has SHA-256 {good}, expected 00ff"):
        fetch("published://a")
    assert files_in_cache(tmp_path) == {"copy.pth"}
    table(dict(name="a", address=url, format="timm", sha256=good[:8]))
    assert fetch("published://a").read_bytes() == weights()
    with pytest.raises(KeyError, match="no published checkpoint named 'b'; choose from a"):
        fetch("published://b")


def test_full_disk(web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(answer: object, path: Path, size: int) -> None:
        path.write_bytes(b"1000")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(download, "_append", write)
        with pytest.raises(OSError, match=r"a\.pth cannot .*checkpoints.*No space left on device"):
            fetch(web.add("/a.pth", weights(SIZE // 8)))
    assert not files_in_cache(tmp_path)
    assert fetch(web.url("/a.pth")).is_file()


class Hostile:
    def __reduce__(self) -> tuple:
        return os.system, ("touch was_run",)


def test_hostile_pickles_are_kept_but_never_run(web, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = fetch(web.add("/evil.pth", pickle.dumps({"state_dict": Hostile()}, protocol=2)))
    with pytest.raises(ValueError, match=r"evil\.pth is refused: it names posix\.system"):
        load_checkpoint(path)
    assert not Path("was_run").exists()


def begin(cache: str, ready: "multiprocessing.synchronize.Barrier") -> None:
    """Wait for the other processes, which have the variables of the first test."""
    os.environ["TORCH_HOME"] = cache
    ready.wait(300)


def test_processes_fetch_a_file_once(web) -> None:
    url = web.add("/a.pth", weights(SIZE // 8))
    context = multiprocessing.get_context("forkserver")
    with context.Pool(4, begin, (os.environ["TORCH_HOME"], context.Barrier(4))) as pool:
        found = pool.map(fetch, [url] * 4, chunksize=1)
    assert len(set(found)) == 1 and web.fetched["/a.pth"] == 1


def repository(web, tmp_path: Path, *names: str) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"{}" if name.endswith("json") else weights())
    web.add_repository("org/name", folder)


def test_repositories_of_the_hub(web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(web, tmp_path, "config.json", "pytorch_model.bin", "other.bin")
    folder = fetch("hf://org/name")
    assert {path.name for path in folder.iterdir()} == {"config.json", "pytorch_model.bin"}
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch("hf://org/name") == folder
    if huggingface_hub.__version__ >= "1":  # older ones read it once
        with pytest.raises(OSError, match="hf://org/other cannot be fetched: .*offline mode"):
            fetch("hf://org/other")


def test_revisions_of_the_hub(web, tmp_path: Path) -> None:
    repository(web, tmp_path, "config.json", "model.safetensors")
    web.add_repository("org/name", tmp_path / "repository", "v2")
    assert (fetch("hf://org/name@v2") / "model.safetensors").is_file()
    assert web.fetched["/api/models/org/name/revision/v2"]
    assert not web.fetched["/api/models/org/name/revision/main"]


def test_several_files_of_weights(web, tmp_path: Path) -> None:
    """And no others, such as those of half precision, or in another format."""
    folder = tmp_path / "repository"
    folder.mkdir()
    tensors = {"a": torch.arange(6.0), "b": torch.ones(6)}
    huggingface_hub.save_torch_state_dict(tensors, folder, max_shard_size=30)
    for name in ("model.fp16.safetensors", "pytorch_model.bin", "training_args.bin"):
        (folder / name).write_bytes(weights())
    web.add_repository("org/name", folder)
    path = fetch("hf://org/name")
    parts = {f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    assert {file.name for file in path.iterdir()} == {*parts, "model.safetensors.index.json"}
    assert torch.equal(load_checkpoint(path).state["a"], tensors["a"])


def test_files_of_a_repository_stay_in_the_cache(web, tmp_path: Path) -> None:
    """Whatever names a server lists."""
    name = "model-/../../../../../outside.safetensors"
    web.add_listing("org/name", {name: weights()})
    web.add(f"/org/name/resolve/{COMMIT}/{name}", weights())
    with pytest.raises((OSError, ValueError)):
        fetch("hf://org/name")
    assert not [*tmp_path.rglob("outside*"), *tmp_path.parent.glob("outside*")]


def test_faults_of_the_hub(web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(web, tmp_path, "config.json")
    with pytest.raises(OSError, match="hf://org/name cannot .* it has no model.* or pytorch_model"):
        fetch("hf://org/name")
    with pytest.raises(OSError, match="hf://org/a/b cannot be fetched: Repo id must be"):
        fetch("hf://org/a/b")


def test_cached_files_of_the_hub_are_neither_read_nor_removed(web, table, tmp_path, monkeypatch):
    """Hashing a large file takes seconds, and other projects use the cache too."""
    monkeypatch.setattr(download, "hash_of", lambda path: pytest.fail("read"))
    repository(web, tmp_path, "config.json", "model.safetensors")
    weights_of = fetch("hf://org/name") / "model.safetensors"
    name = weights_of.resolve().name
    for sha256 in ("", name[:8], name):
        table(dict(name="a", address="hf://org/name", format="huggingface", sha256=sha256))
        assert fetch("published://a") / "model.safetensors" == weights_of
    table(dict(name="a", address="hf://org/name", format="huggingface", sha256="00ff"))
    with pytest.raises(ValueError, match=f"hf://org/name has SHA-256 {name}, expected 00ff"):
        fetch("published://a")
    assert weights_of.read_bytes() == weights()
    assert web.fetched[f"/org/name/resolve/{COMMIT}/model.safetensors"] == 1


def test_unreachable_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_pause) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://localhost:1")
    template = "http://localhost:1/{repo_id}/resolve/{revision}/{filename}"
    for module in (constants, file_download):  # a copy before 0.34
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    with pytest.raises(OSError, match="hf://org/name cannot be fetched: .*Connection refused"):
        fetch("hf://org/name")


def test_image_models_are_for_init_from() -> None:
    with pytest.raises(ValueError, match=r"init_from=dict\(source='timm:vit_base_patch16_224"):
        fetch("published://vit_base_patch16_224.orig_in21k")
