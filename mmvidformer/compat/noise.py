"""Warnings of the MM stack that a user cannot act on.

Symptoms: each run starts with warnings about ``pkg_resources`` (MMEngine 0.10 imports it to find
``mmaction::`` configs) and about a layer of the full mmcv that MMAction2's recognizers do not use.
MMEngine also warns about its own use of its deprecated ``FileClient`` and of PyTorch's deprecated
``broadcast_buffers``; MMAction2 imports a deprecated name of timm, if transformers is version 4.
Only these messages are suppressed.
"""

import warnings
from logging import LogRecord
from types import ModuleType

from mmvidformer.compat.imports import after_import

# Start of the message (a regular expression), category, module that is warned (likewise).
WARNINGS = (
    ("pkg_resources is deprecated as an API", UserWarning, ""),
    (
        "Fail to import ``MultiScaleDeformableAttention``",
        UserWarning,
        r"mmcv\.cnn\.bricks\.transformer",
    ),
    ("`broadcast_buffers` is deprecated", FutureWarning, r"mmengine\.model\.wrappers\."),
    ("Importing from timm.models.layers is deprecated", FutureWarning, r"timm\.models\.layers"),
)

# Start of the lines of MMEngine's log.
LOG_LINES = (
    '"FileClient" will be deprecated in future.',
    '"HardDiskBackend" is the alias of "LocalBackend"',
)


def _change(module: ModuleType) -> None:
    original = module.MMLogger.filter

    def without_noise(self: object, record: LogRecord) -> bool:
        return not str(record.msg).startswith(LOG_LINES) and original(self, record)

    module.MMLogger.filter = without_noise


def repair() -> None:
    """Suppress the warnings, and drop the lines from MMEngine's logs."""
    for message, category, module in WARNINGS:
        warnings.filterwarnings("ignore", message, category, module)
    after_import("mmengine.logging.logger", _change)
