"""Give files that would run code to every entry point that reads weights.

    python -m stress.hostile_files --out hostile.csv

Each file holds a payload that writes a marker file. Prints a table: entry point, file, what the
user saw, whether the payload ran. The exit status is 1 if a payload ran or a hostile pickle was
accepted. Needs a system with fork (Linux, macOS).
"""

import argparse
import csv
import io
import os
import pickle
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import HistoryBuffer
from mmengine.registry import init_default_scope
from mmengine.runner import load_checkpoint
from tqdm import tqdm

from mmvidformer.convert import init_from_image
from mmvidformer.engine.errors import run_tool
from mmvidformer.models import ViViT
from mmvidformer.registry import MODELS

TOOLS = Path(__file__).parents[1] / "tools"
sys.path[:0] = [str(TOOLS), str(TOOLS / "visualizations")]
from convert_checkpoint import main as convert  # noqa: E402
from rollout import main as rollout  # noqa: E402
from test import main as test  # noqa: E402
from train import main as train  # noqa: E402

from stress.tiny_run import fork, prepare, write_config  # noqa: E402


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


def hostile_files(folder: Path, mark: Path) -> dict[str, Path]:
    """Write each kind of file, and return the paths by description."""
    found: dict[str, Path] = {}
    for number, (name, payload) in enumerate(payloads(mark).items()):
        content = dict(state_dict=dict(weight=payload), meta=dict(epoch=0, iter=0))
        path = folder / f"torch_{number}.pth"
        # Modules cannot be pickled by value; protocol 2 is what torch.save writes.
        try:
            torch.save(content, path)
        except (TypeError, pickle.PicklingError):
            path.write_bytes(_getattr_of_os(mark))
        found[f"torch file, {name}"] = path
    system = dict(state_dict=dict(weight=Call(os.system, touch(mark))))
    path = folder / "legacy.pth"
    torch.save(system, path, _use_new_zipfile_serialization=False)
    found["torch file before 1.6, os.system"] = path
    for protocol in (0, 2, 4):
        path = folder / f"pickle_{protocol}.pth"
        path.write_bytes(pickle.dumps(system, protocol=protocol))
        found[f"plain pickle of protocol {protocol}, os.system"] = path
    path = folder / "script.pth"
    torch.jit.script(torch.nn.Linear(1, 1)).save(str(path))
    found["TorchScript program"] = path
    path = folder / "array.npz"
    with path.open("wb") as file:
        np.savez(file, w=np.array([Call(os.system, touch(mark))], dtype=object))
    found["npz of objects, os.system"] = path
    return found


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


def entries(config: Path, folder: Path) -> dict[str, Callable[[Path], object]]:
    """What users do with a checkpoint, by name."""
    out = folder / "out"
    cfg = Config.fromfile(config)
    work = ["--work-dir", str(out)]
    video = str(folder / "videos" / "0.mp4")

    def resume_newest(path: Path) -> None:
        out.mkdir(exist_ok=True)
        shutil.copy(path, out / "epoch_1.pth")
        train([str(config), *work, "--resume"])

    def from_address(path: Path) -> None:
        # A file that exists is not downloaded again.
        there = folder / "hub" / "checkpoints"
        there.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, there / path.name)
        os.environ["TORCH_HOME"] = str(folder)
        train([str(config), *work, "--cfg-options", f"load_from=https://localhost/{path.name}"])

    def init_recognizer(path: Path) -> None:
        from mmaction.apis import init_recognizer as init

        init(cfg, str(path), device="cpu")

    def backbone() -> torch.nn.Module:
        return ViViT(**{k: v for k, v in cfg.model.backbone.items() if k != "type"})

    return {
        "tools/convert_checkpoint.py FILE": lambda p: convert([str(p), str(out / "a.pth")]),
        "tools/train.py --resume FILE": lambda p: train([str(config), *work, "--resume", str(p)]),
        "tools/train.py --resume": resume_newest,
        "load_from=FILE": lambda p: train([str(config), *work, "--cfg-options", f"load_from={p}"]),
        "load_from=ADDRESS": from_address,
        "tools/test.py CONFIG FILE": lambda p: test([str(config), str(p), *work]),
        "tools/visualizations/rollout.py": lambda p: rollout(
            [str(config), str(p), video, "--out-dir", str(out)]
        ),
        "backbone init_from=FILE": lambda p: init_from_image(backbone(), p),
        "BNInception init_from=FILE": lambda p: MODELS.build(
            dict(type="mmvidformer.BNInception", init_from=str(p))
        ).init_weights(),
        "init_cfg Pretrained (load_checkpoint)": lambda p: load_checkpoint(backbone(), str(p)),
        "MMAction2's init_recognizer": init_recognizer,
    }


def try_file(
    action: Callable[[Path], object], path: Path, mark: Path, log: Path
) -> tuple[str, str]:
    """Read a file in a child process; return what the user saw and whether the payload ran."""
    mark.unlink(missing_ok=True)
    log.unlink(missing_ok=True)

    def read() -> None:
        raise SystemExit(run_tool(lambda: _status(action(path))))

    child = fork(read, log)
    deadline, status = time.monotonic() + 120, None
    while status is None and time.monotonic() < deadline:
        gone, ended = os.waitpid(child, os.WNOHANG)
        status = ended if gone else None
        time.sleep(0.005)
    if status is None:
        os.kill(child, 9)
        os.waitpid(child, 0)
        return "hangs", "no"
    ran = "YES" if mark.exists() else "no"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    # With --resume alone the file has another name.
    named = [line for line in lines if path.name in line or "is refused" in line]
    last = named[-1] if named else ""
    if os.waitstatus_to_exitcode(status) == 0:
        return "accepted", ran
    refused = "refused" if "is refused" in last else "error"
    shown = last or (lines or [""])[-1]
    return f"{refused}: {shown.strip()[:160]}", ran


def _status(result: object) -> int:
    """Exit status of a tool; other functions return something else."""
    return result if isinstance(result, int) else 0


def config_text(path: Path, mark: Path, config: Path) -> None:
    """Write a valid checkpoint whose config text is a program."""
    model = MODELS.build(Config.fromfile(config).model)
    text = f"import os\nos.system({touch(mark)!r})\n"
    meta = dict(epoch=0, iter=0, config=text, cfg=text)
    hub = dict(log_scalars={}, runtime_info={}, resumed_keys={})
    torch.save(dict(state_dict=model.state_dict(), meta=meta, message_hub=hub), path)


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run only entry points whose name contains this")
    parser.add_argument("--out", type=Path, help="write the table to this .csv file")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Try all files at all entry points and return the exit status."""
    args = parse_args(argv)
    prepare()
    rows, bad = [], 0
    with tempfile.TemporaryDirectory(prefix="hostile_files_") as name:
        folder = Path(name)
        mark, log = folder / "was_run", folder / "log.txt"
        config = write_config(folder, epochs=1, interval=100)
        init_default_scope("mmaction")
        files = hostile_files(folder, mark)
        program = folder / "program.pth"
        config_text(program, mark, config)
        files["checkpoint with a program as its config"] = program
        doors = {name: do for name, do in entries(config, folder).items() if args.only in name}
        tries = [(door, file) for door in doors.items() for file in files.items()]
        for (entry, action), (kind, path) in tqdm(tries, unit="file", disable=None):
            shutil.rmtree(folder / "out", ignore_errors=True)
            saw, ran = try_file(action, path, mark, log)
            saw = saw.replace(f"{folder}/", "")
            bad += ran == "YES" or (path != program and saw in ("accepted", "hangs"))
            rows.append(dict(entry=entry, file=kind, saw=saw, payload_ran=ran))
            tqdm.write(f"{entry:40} {kind:48} {ran:4} {saw[:100]}")
    print(f"{len(rows)} tries, {sum(r['payload_ran'] == 'YES' for r in rows)} payloads ran")
    if args.out is not None:
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
