"""MMAction2 1.2 needs mmcv 2.0 or 2.1, full or lite, but does not declare it.

PyPI's ``mmcv`` is a source distribution that needs a compiler, and ``mmcv-lite`` overwrites it if
both are installed, so neither can be a hard requirement. Symptoms: a bare ``ModuleNotFoundError``,
or an assertion in ``mmaction/__init__.py``. References: open-mmlab/mmcv#3325, #3329.
"""

import importlib.util


def _installed() -> str | None:
    if importlib.util.find_spec("mmcv") is None:
        return None
    from mmcv.version import __version__

    return __version__


def needed() -> bool:
    """Whether mmcv is missing or outside [2.0.0rc4, 2.2), the range that MMAction2 asserts."""
    from mmengine.utils import digit_version

    version = digit_version(_installed() or "0.0.0")
    return not digit_version("2.0.0rc4") <= version < digit_version("2.2.0")


def repair() -> None:
    """Explain what to install.

    Raises:
        ImportError: Always.
    """
    version = _installed()
    found = "no mmcv is installed" if version is None else f"mmcv {version} is installed"
    raise ImportError(
        f"MMAction2 1.2 needs mmcv >= 2.0 and < 2.2, but {found}. Without other MM projects: "
        'pip install "mmvidformer[lite]" (mmcv-lite, no compiler needed). Beside projects that '
        'use mmcv.ops: pip install "mmcv>=2.0,<2.2". Never install both.'
    )
