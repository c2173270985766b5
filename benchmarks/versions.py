"""Versions of the packages that a result depends on."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("torch", "mmaction2", "mmengine", "transformers", "timm", "onnxruntime")


def versions() -> str:
    """Return the versions of Python and ``PACKAGES``."""
    lines = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name} not installed")
    return ", ".join(lines)
