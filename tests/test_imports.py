"""What an import or a look-up must not load."""

import subprocess
import sys

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


# Each step, and what it may load. The steps run one after another in one process.
STEPS = {
    "import mmvidformer": set(),
    "from mmvidformer.models import ViViT": set(),
    "import mmvidformer.apis": set(),
    "import mmvidformer.visualization": set(),
    "from mmvidformer.registry import HOOKS; HOOKS.get('mmvidformer.CompileHook')": RUNNER,
}


def test_optional_parts_are_not_loaded() -> None:
    code = "import sys"
    for step in STEPS:
        code += f"\n{step}; print(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for (step, allowed), loaded in zip(STEPS.items(), printed.splitlines(), strict=True):
        assert HEAVY & {*loaded.split()} <= allowed, step
