"""What the MM stack prints that a user cannot act on.

Symptoms: each run of a tool opens with warnings on ``pkg_resources`` (MMEngine 0.10 imports it to
find ``mmaction::`` configs) and on a layer of the full mmcv that MMAction2's recognisers don't use,
and MMEngine warns of its own calls of its own old names (``FileClient``) and of an old argument of
PyTorch's (``broadcast_buffers``). Only these are silenced: all else still comes through.
"""

import warnings
from importlib.util import find_spec
from logging import LogRecord
from types import ModuleType

from mmvidformer.compat.finders import after_import

# How a message begins (a regular expression), its category, the module that is warned (likewise).
WARNINGS = (
    ("pkg_resources is deprecated as an API", UserWarning, ""),
    (
        "Fail to import ``MultiScaleDeformableAttention``",
        UserWarning,
        r"mmcv\.cnn\.bricks\.transformer",
    ),
    ("`broadcast_buffers` is deprecated", FutureWarning, r"mmengine\.model\.wrappers\."),
)

# How lines of MMEngine's log begin.
LOG_LINES = (
    '"FileClient" will be deprecated in future.',
    '"HardDiskBackend" is the alias of "LocalBackend"',
)


def _change(module: ModuleType) -> None:
    wanted = module.MMLogger.filter

    def without_noise(self: object, record: LogRecord) -> bool:
        return not str(record.msg).startswith(LOG_LINES) and wanted(self, record)

    module.MMLogger.filter = without_noise


def needed() -> bool:
    """Whether MMEngine is there."""
    return find_spec("mmengine") is not None


def repair() -> None:
    """Silence the warnings, and leave the lines out of MMEngine's logs."""
    for message, category, module in WARNINGS:
        warnings.filterwarnings("ignore", message, category, module)
    after_import("mmengine.logging.logger", _change)
