"""Repairs that make MMAction2 1.2 and MMEngine 0.10 work on a current Python stack.

Each module is one repair. Its docstring describes what is broken upstream (project, version,
symptom, reference). ``repair()`` fixes that fault and nothing else; if the fault depends on what is
installed, ``needed()`` returns whether it is present. ``tests/test_compat.py`` fails when the
versions in ``constraints/`` no longer need a repair, so that it can be removed.
"""

from importlib import import_module

# In this order: first what MMEngine and MMAction2 need to be imported at all.
REPAIRS = (
    *("noise", "mmcv_version", "find_loader", "drn", "numpy_2", "multimodal"),
    *("checkpoints", "untrusted_checkpoints", "half_scores", "config_names"),
)


def apply() -> None:
    """Run every repair whose fault is present."""
    for name in REPAIRS:
        module = import_module(f"{__name__}.{name}")
        if not hasattr(module, "needed") or module.needed():
            module.repair()
