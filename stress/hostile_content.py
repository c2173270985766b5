"""Files that would run code, or reach other data, if a reader trusted them."""

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import HistoryBuffer

from mmvidformer.checkpoints.partial import hashes_of
from mmvidformer.registry import MODELS

ELSEWHERE = "elsewhere/weights.pth"  # a file that no other file may make a reader open


class Call:
    """An object that calls a function when it is unpickled."""

    def __init__(self, function: Callable, *args: object) -> None:
        self.call = function, args

    def __reduce__(self) -> tuple:
        return self.call


def touch(mark: Path) -> str:
    """Shell command of a payload."""
    return f"touch {mark}"


def payloads(mark: Path) -> dict[str, object]:
    """Objects that run code when they are unpickled, by the function that they call."""
    code = f"open({str(mark)!r}, 'w').close()"
    return {
        "os.system": Call(os.system, touch(mark)),
        "builtins.exec": Call(exec, code),
        "builtins.eval": Call(eval, f"[{code}]"),
        "pathlib.Path.touch": Call(Path.touch, mark),
        "torch.load": Call(torch.load, str(mark)),
        "getattr of HistoryBuffer": Call(getattr, HistoryBuffer, "__init__"),
        "getattr of a module": Call(getattr, os, "system"),
    }


def code_files(folder: Path, mark: Path) -> dict[str, Path]:
    """Write each kind of file, and return the paths by description."""
    paths: dict[str, Path] = {}
    for number, (name, payload) in enumerate(payloads(mark).items()):
        content = dict(state_dict=dict(weight=payload), meta=dict(epoch=0, iter=0))
        path = folder / f"torch_{number}.pth"
        # Modules cannot be pickled by value; protocol 2 is what torch.save writes.
        try:
            torch.save(content, path)
        except (TypeError, pickle.PicklingError):
            path.write_bytes(_getattr_of_os(mark))
        paths[f"torch file, {name}"] = path
    system = dict(state_dict=dict(weight=Call(os.system, touch(mark))))
    path = folder / "legacy.pth"
    torch.save(system, path, _use_new_zipfile_serialization=False)
    paths["torch file before 1.6, os.system"] = path
    for protocol in (0, 2, 4):
        path = folder / f"pickle_{protocol}.pth"
        path.write_bytes(pickle.dumps(system, protocol=protocol))
        paths[f"plain pickle of protocol {protocol}, os.system"] = path
    path = folder / "script.pth"
    torch.jit.script(torch.nn.Linear(1, 1)).save(str(path))
    paths["TorchScript program"] = path
    path = folder / "array.npz"
    with path.open("wb") as file:
        np.savez(file, w=np.array([Call(os.system, touch(mark))], dtype=object))
    paths["npz of objects, os.system"] = path
    return paths


def _getattr_of_os(mark: Path) -> bytes:
    """A torch file with a handwritten pickle: ``getattr(os, 'system')('touch mark')``."""
    code = b"\x80\x02cbuiltins\ngetattr\n(cbuiltins\n__import__\n(X\x02\x00\x00\x00ostR"
    code += b"X\x06\x00\x00\x00systemtR(X" + len(touch(mark)).to_bytes(4, "little")
    code += touch(mark).encode() + b"tR."
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", code)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    return out.getvalue()


def partial_files(folder: Path, config: Path, address: str) -> dict[str, Path]:
    """Write checkpoints that take weights from elsewhere, and return the paths by description."""
    state = MODELS.build(Config.fromfile(config).model).state_dict()
    head = {name: value for name, value in state.items() if name.startswith("cls_head.")}
    hashes = hashes_of(state, state.keys() - head.keys())
    elsewhere = folder / ELSEWHERE
    elsewhere.parent.mkdir()
    torch.save({"state_dict": state}, elsewhere)
    sources = {
        "an address": address,
        "a path": str(elsewhere),
        "a path beside it": ELSEWHERE,
        "itself": "base_itself.pth",
        "one that names it": "base_one_that_is_named.pth",
        "one that is named": "base_one_that_names_it.pth",
    }
    bases: dict[str, object] = {
        name: dict(source=source, sha256=hashes) for name, source in sources.items()
    }
    bases["no mapping"] = [address]
    paths = {}
    for name, base in bases.items():
        path = folder / f"base_{name.replace(' ', '_')}.pth"
        content = {"state_dict": head, "meta": dict(epoch=0, iter=0), "message_hub": {}}
        torch.save({**content, "base": base}, path)
        paths[f"base: {name}"] = path
    return paths


def config_text(path: Path, mark: Path, config: Path) -> None:
    """Write a valid checkpoint whose config text is a program."""
    model = MODELS.build(Config.fromfile(config).model)
    text = f"import os\nos.system({touch(mark)!r})\n"
    meta = dict(epoch=0, iter=0, config=text, cfg=text)
    hub = dict(log_scalars={}, runtime_info={}, resumed_keys={})
    torch.save(dict(state_dict=model.state_dict(), meta=meta, message_hub=hub), path)
