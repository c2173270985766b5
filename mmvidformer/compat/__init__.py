"""Repairs that make MMAction2 1.2 and MMEngine 0.10 work on a current Python stack.

Each module is one repair. Its docstring describes what is broken upstream (project, version,
symptom, reference). ``repair()`` fixes that fault and nothing else; if the fault depends on what is
installed, ``needed()`` returns whether it is present. ``tests/test_compat.py`` fails when the
versions in ``constraints/`` no longer need a repair, so that it can be removed.
"""

from functools import cache
from importlib import import_module

# In this order: first what MMEngine and MMAction2 need to be imported at all.
REPAIRS = (
    *("mmcv_version", "find_loader", "drn", "multimodal", "numpy_2"),
    *("checkpoints", "untrusted_checkpoints", "config_names"),
)
# Its import is the repair. MMAction2's registry imports it after the models, at the first look-up,
# which each head does when it is built. The models load MMDetection and MMPretrain if they are
# installed, so that this package does not import them itself.
OF_MODELS = "half_scores"


@cache
def apply() -> None:
    """Run every repair whose fault is present, once per process."""
    for name in REPAIRS:
        module = import_module(f"{__name__}.{name}")
        if not hasattr(module, "needed") or module.needed():
            module.repair()
    from mmaction.registry import MODELS

    MODELS._locations.append(f"{__name__}.{OF_MODELS}")
    MODELS._imported = False  # also if a look-up came first
