"""Warnings of the MM stack that a user cannot act on.

Symptoms: each run starts with warnings about ``pkg_resources`` (MMEngine 0.10 imports it to find
``mmaction::`` configs), about a layer of the full mmcv that MMAction2's recognizers do not use, and
about MMEngine's own use of a deprecated argument of PyTorch. Only these are suppressed.
"""

import warnings

# Start of the message (a regular expression), category, module that is warned (likewise).
WARNINGS = (
    ("pkg_resources is deprecated as an API", UserWarning, ""),
    (
        "Fail to import ``MultiScaleDeformableAttention``",
        UserWarning,
        r"mmcv\.cnn\.bricks\.transformer",
    ),
    ("`broadcast_buffers` is deprecated", FutureWarning, r"mmengine\.model\.wrappers\."),
)


def repair() -> None:
    """Suppress the warnings."""
    for message, category, module in WARNINGS:
        warnings.filterwarnings("ignore", message, category, module)
