"""Repairs that make MMAction2 1.2 and MMEngine 0.10 usable on a current Python stack.

Each module is one repair: its docstring says what is broken upstream (project, version, symptom,
reference), ``needed()`` tells whether the fault is present, and ``repair()`` mends that and
nothing else. ``tests/test_compat.py`` fails when a repair is no longer needed by the versions of
``constraints.txt``, so that it can be dropped.
"""

from mmvidformer.compat import (
    checkpoints,
    color_jitter,
    config_names,
    drn,
    half_scores,
    metadata_backport,
    mmcv_version,
    multimodal,
    noise,
    setuptools_82,
    untrusted_checkpoints,
)

# In order: what MMEngine and MMAction2 need to be imported at all comes first.
REPAIRS = (
    noise,
    setuptools_82,
    metadata_backport,
    mmcv_version,
    drn,
    multimodal,
    checkpoints,
    untrusted_checkpoints,
    color_jitter,
    half_scores,
    config_names,
)


def apply() -> None:
    """Run every repair whose fault is present."""
    for module in REPAIRS:
        if module.needed():
            module.repair()
