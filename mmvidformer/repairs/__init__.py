"""Repairs that make MMAction2 1.2 and MMEngine 0.10 work on a current Python stack.

Each module is one repair. Its docstring describes what is broken upstream (project, version,
symptom, reference). ``repair()`` fixes that fault and nothing else, and does nothing where the
fault is not present. ``tests/registry/test_repairs.py`` fails when the versions in ``constraints/``
no longer need a repair, so that it can be removed.

Importing this package applies them, so what imports MMAction2 imports it first.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from mmvidformer.errors import MissingPackage

# In this order: first what MMEngine and MMAction2 need to be imported at all.
REPAIRS = (
    "find_loader",
    "drn",
    "multimodal",
    "scipy_stats",
    "numpy_2",
    "config_text",
    "gloo_threads",
    "lost_workers",
)
# Their import is the repair. MMAction2's registries import them after the models and metrics, at
# the first look-up, which each head does when it is built. The models load MMDetection and
# MMPretrain if they are installed, so that this package does not import them itself.
OF_MODELS, OF_METRICS = ("half_scores",), ("accuracy", "ava_pool")


@cache
def apply() -> None:
    """Run every repair, once per process.

    Raises:
        ImportError: If mmcv is missing, which MMAction2 needs but does not declare.
    """
    if find_spec("mmcv") is None:  # open-mmlab/mmcv#3325, #3329
        raise MissingPackage(
            'MMAction2 needs mmcv: pip install "mmcv-lite>=2.0.1,<2.2", or "mmcv>=2.0,<2.2" if '
            "other projects use mmcv.ops, never both"
        )
    for name in REPAIRS:
        import_module(f"{__name__}.{name}").repair()
    from mmaction.registry import METRICS, MODELS

    for registry, names in ((MODELS, OF_MODELS), (METRICS, OF_METRICS)):
        registry._locations.extend(f"{__name__}.{name}" for name in names)
        registry._imported = False  # also if a look-up came first


apply()
