"""What answers needs neither MMAction2 nor MMEngine's runner: blocked, they are not missed."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer

from mmvidformer.config.shipped import PACKAGE

BLOCKED = ("mmaction", "mmcv", "mmengine.runner", "mmengine.model", "mmengine.optim")
UNUSED = (
    "decord",
    "matplotlib",
    "pandas",
    "scipy",
    "sklearn",
    "timm",
    "torchvision",
    "transformers",
)
VIDEO = PACKAGE / "weights" / "camera_motion.mp4"
BLOCK = f"""
    import sys

    class Without:
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, path=None, target=None):
            if any(name == project or name.startswith(project + ".") for project in HIDDEN):
                return None
            return self.finder.find_spec(name, path, target)

    HIDDEN = {BLOCKED + UNUSED}
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def run(code: str, cwd: Path) -> str:
    """Run code in a new process in which the packages are not found."""
    text = textwrap.dedent(BLOCK) + textwrap.dedent(code)
    command = [sys.executable, "-W", "ignore", "-c", text]
    result = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def test_python(tmp_path: Path) -> None:
    code = f"""
        import json
        from mmvidformer.apis import Recognizer

        recognizer = Recognizer("camera_motion")
        whole = recognizer({str(VIDEO)!r})
        windows = [*recognizer.timeline({str(VIDEO)!r}, window=1.0)]
        print(json.dumps([whole.labels, len(windows)]))
    """
    labels, windows = json.loads(run(code, tmp_path))
    assert labels == ["pan right"] and windows > 1


def test_a_checkpoint_with_the_state_of_its_training(tmp_path: Path) -> None:
    """As MMEngine's runner writes it, read where none is imported."""
    content = {
        "state_dict": {"a": torch.ones(2)},
        "message_hub": {"log_scalars": {"loss": HistoryBuffer([1.0, 3.0], [1, 1])}},
        "scalar": np.float64(0.5),
    }
    torch.save(content, tmp_path / "epoch_1.pth")
    code = """
        from mmvidformer.checkpoints.reading import read_content

        content = read_content("epoch_1.pth")
        print(content["message_hub"]["log_scalars"]["loss"].mean(), content["scalar"])
    """
    assert run(code, tmp_path).split() == ["2.0", "0.5"]


@pytest.mark.parametrize(
    ("command", "results"),
    [
        ("demo camera_motion VIDEO --csv a.csv --timeline a.png --out a.mp4", "a.*"),
        ("label camera_motion VIDEO --out rows", "rows/*.parquet"),
        ("features camera_motion VIDEO --out rows", "rows/*"),
        ("export camera_motion --out a.onnx", "a.onnx"),
        ("plot rollout camera_motion published://camera_motion VIDEO --out a", "a/*.png"),
        ("count camera_motion vivit_fe_k400 --csv a.csv", "a.csv"),
        ("speed camera_motion --clips 1 --rounds 1 --json a.json", "a.json"),
    ],
)
def test_commands(command: str, results: str, tmp_path: Path) -> None:
    """Also in processes that they start, which import this main module."""
    code = f"""
        if __name__ == "__main__":
            from mmvidformer.__main__ import main

            sys.exit(main({command.split()!r}))
    """
    script = tmp_path / "blocked.py"
    text = textwrap.dedent(BLOCK).replace("'matplotlib', ", "")  # of timelines and films
    text += textwrap.dedent(code).replace("VIDEO", str(VIDEO))
    script.write_text(text, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert not results or [*tmp_path.glob(results)]


@pytest.mark.parametrize(
    ("step", "most"),
    [
        ("import mmvidformer", 0),
        ("import mmvidformer.apis", 560),
        ("mmvidformer.apis.Recognizer('camera_motion')", 700),
    ],
)
def test_modules_that_are_loaded(step: str, most: int, tmp_path: Path) -> None:
    """Beside those of PyTorch, NumPy, einops and the standard library that they need."""
    code = f"""
        import torch, einops
        before = len(sys.modules)
        import mmvidformer{".apis" if "apis" in step else ""}
        {step}
        print(len(sys.modules) - before - 1)
    """
    assert int(run(code, tmp_path)) <= most
