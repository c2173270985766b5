"""What importing the inference API loads, in fresh interpreters."""

import subprocess
import sys

import pytest

MM = ("mmaction.models", "mmengine.runner", "mmengine._strategy", "torch.distributed.fsdp")
HEAVY = ("matplotlib", "sklearn", "timm", "mmvidformer.engine.fsdp", *MM)


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("mmvidformer.apis", HEAVY),
        ("mmvidformer.visualization", HEAVY),
        ("mmvidformer.visualization.plots", HEAVY[1:]),
    ],
)
def test_importing_loads_no_optional_parts(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*[m for m in {absent} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, ""), run.stderr
