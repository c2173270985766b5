"""What an import or a look-up must not load."""

import subprocess
import sys

HEAVY = {
    "matplotlib",
    "mmaction.models",
    "mmvidformer.engine.fsdp",
    "sklearn",
    "timm",
    "torchvision",
}

# They run one after another in one process.
STEPS = (
    "import mmvidformer",
    "from mmvidformer.models import ViViT",
    "import mmvidformer.apis",
    "import mmvidformer.visualization",
    "from mmvidformer.registry import HOOKS; HOOKS.get('mmvidformer.CompileHook')",
)


def test_optional_parts_are_not_loaded() -> None:
    code = "import sys"
    for step in STEPS:
        code += f"\n{step}; print(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for step, loaded in zip(STEPS, printed.splitlines(), strict=True):
        assert not HEAVY & {*loaded.split()}, step
