"""Options of commands that say which model is asked, and how."""

import re
from argparse import Action, ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmvidformer.engine.options import Options, argument, flag, option


def override(text: str) -> str:
    """Check an override of a config, which MMEngine reads."""
    is_open = any(text.count(a) != text.count(b) for a, b in ("()", "[]"))
    if (
        not re.match("[^=]+=", text) or is_open or re.search(r"\w[(\[].*,", text)
    ):  # as dict(a=1,b=2)
        raise ArgumentTypeError(f"must be DOTTED.KEY=VALUE with closed brackets, got {text!r}")
    if re.match(r"[^=]*=[^\[(]*\S \S", text):
        raise ArgumentTypeError(f"MMEngine removes spaces from values, got {text!r}")
    return text


class _Overrides(Action):
    """Values by dotted key, which MMEngine reads of ``KEY=VALUE``."""

    def __call__(self, parser: ArgumentParser, args: Any, texts: Any, *_: object) -> None:
        from mmengine.config import DictAction  # not for --help

        DictAction(self.option_strings, self.dest)(parser, args, texts)


CONFIG = "config file, or name of a shipped config"
CHECKPOINT = (
    "file, published://NAME, hf://ORG/NAME or URL (default: the published one of the config)"
)


@dataclass(frozen=True)
class ForceOptions(Options):
    """What ``storage.targets.check_targets`` takes."""

    force: bool = flag(
        "replace results that are there already, when the new ones are whole; without it that is "
        "an error before the work begins"
    )


@dataclass(frozen=True)
class OverrideOptions(Options):
    """Changes of a config."""

    cfg_options: dict[str, Any] | None = option(
        "overrides of the config; lists as key=[a,b] without spaces, nested keys with dots, "
        "list items by number: a.b.0.c=1",
        None,
        False,
        nargs="+",
        action=_Overrides,
        type=override,
        metavar="KEY=VALUE",
    )


@dataclass(frozen=True)
class ClassOptions(Options):
    """Names of classes, which ``apis.class_names`` takes."""

    classes: Sequence[str] = option(
        "class names: a text file with one name per line, or a csv file; for several tasks "
        "verb=FILE noun=FILE ... (default: those of the checkpoint, config or dataset, or numbers)",
        (),
        False,
        nargs="+",
        metavar="FILE",
    )


@dataclass(frozen=True)
class SpeedOptions(Options):
    """What makes a model faster and its answers inexact (``apis.fast``)."""

    int8: bool = flag(
        "linear layers multiply in 8 bits, on a CPU; measure first what that changes: mmvidformer "
        "speed"
    )
    static: float | None = option(
        "save time on still parts of a video: a patch that changes by at most T of 255 gray levels "
        "from frame to frame is computed once (6 is a start); measure first what that changes: "
        "mmvidformer speed",
        type=float,
        metavar="T",
    )

    @property
    def inexact(self) -> dict[str, Any]:
        """Arguments of ``Recognizer`` that are given."""
        values = dict(int8=self.int8 or None, static=self.static)
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class DeviceOptions(Options):
    """Where a model runs."""

    device: str | None = option("such as cuda:1 (default: a GPU if there is one)", None, False)


@dataclass(frozen=True)
class ConfigOptions(OverrideOptions):
    """A config, and changes of it."""

    config: str = argument(CONFIG)


@dataclass(frozen=True)
class CheckpointOptions(DeviceOptions, ConfigOptions):
    """A model whose checkpoint is named."""

    checkpoint: str = argument("file, published://NAME, hf://ORG/NAME or URL")


@dataclass(frozen=True)
class ModelOptions(DeviceOptions, SpeedOptions, OverrideOptions):
    """A model that answers. Commands differ in how config and checkpoint are given."""

    config: str = ""
    checkpoint: str | None = None


@dataclass(frozen=True)
class NamedModelOptions(ModelOptions, ClassOptions):
    """A model that answers with names of classes."""
