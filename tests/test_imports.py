"""What an import or a look-up must not load."""

import subprocess
import sys

import pytest

HEAVY = {
    "matplotlib",
    "mmaction.models",
    "mmengine._strategy",
    "mmvidformer.engine.fsdp",
    "sklearn",
    "timm",
    "torch.distributed.fsdp",
    "torchvision",
    "transformers",
}
# Loaded by MMEngine's own runner and optimizers.
RUNNER = {"mmengine._strategy", "torch.distributed.fsdp", "transformers"}


@pytest.mark.parametrize(
    "code, allowed",
    [
        ("import mmvidformer", set()),
        ("from mmvidformer.models import ViViT", set()),
        (
            "from mmvidformer.registry import HOOKS\n"
            "assert HOOKS.get('mmvidformer.CompileHook').__name__ == 'CompileHook'",
            RUNNER,
        ),
        ("import mmvidformer.apis", set()),
        ("import mmvidformer.visualization", set()),
    ],
)
def test_optional_parts_are_not_loaded(code: str, allowed: set[str]) -> None:
    code += "\nimport sys; print(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert HEAVY & {*loaded} <= allowed
