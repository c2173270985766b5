"""MMAction2 1.2 needs mmcv, full or lite, but does not declare it.

PyPI's ``mmcv`` is a source distribution that needs a compiler, and ``mmcv-lite`` overwrites it if
both are installed, so neither can be a hard requirement. Symptom: ``No module named 'mmcv'``.
MMAction2 itself names the versions that it needs. References: open-mmlab/mmcv#3325, #3329.
"""

from importlib.util import find_spec


def needed() -> bool:
    """Whether mmcv is missing."""
    return find_spec("mmcv") is None


def repair() -> None:
    """Explain what to install.

    Raises:
        ImportError: Always.
    """
    raise ImportError(
        "MMAction2 1.2 needs mmcv >= 2.0 and < 2.2, but no mmcv is installed. Without other MM "
        'projects: pip install "mmvidformer[lite]" (mmcv-lite, no compiler needed). Beside '
        'projects that use mmcv.ops: pip install "mmcv>=2.0,<2.2". Never install both.'
    )
