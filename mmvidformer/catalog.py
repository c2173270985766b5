"""What configs name: models, datasets and transforms of this package, found without MMAction2.

A config writes a part of this package as ``mmvidformer.NAME``. Parts that have MMAction2's names
(``CrossEntropyLoss``) do what MMAction2's do, so that models are built without it.
``mmvidformer.registry`` gives the names to MMAction2; a part that is not here is built by it.
"""

from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar

Part = TypeVar("Part", bound=type)

SCOPES = ("mmvidformer", "mmaction.mmvidformer")
PLUGIN = "mmvidformer.registry"  # imports MMAction2
PROJECTS = ("mmaction", "mmengine", "mmcv", "mmdet", "mmpretrain", "mmpose")  # with registries


class NotCovered(Exception):
    """A part that has a name of MMAction2's does not have these options; MMAction2's has."""


class Catalog:
    """Classes by the names that configs give them.

    Args:
        registry: Name of the registry of ``PLUGIN`` for the same parts.
        modules: Modules whose import adds their classes. They are imported one after the other
            until a name is found.
    """

    def __init__(self, registry: str, *modules: str) -> None:
        self._registry, self._modules = registry, list(modules)
        self._parts: dict[str, type] = {}
        self._stand_ins: dict[str, type] = {}

    def add(self, part: Part) -> Part:
        """Add a class of this package; a decorator."""
        self._parts[part.__name__] = part
        return part

    def add_stand_in(self, part: Part) -> Part:
        """Add a class that does what MMAction2's class of its name does; a decorator."""
        self._stand_ins[part.__name__] = part
        return part

    @property
    def parts(self) -> Mapping[str, type]:
        """This package's classes by name."""
        self._search("", {})
        return self._parts

    def find(self, name: str, scope: str = "") -> type | None:
        """Return the class of a name in a config, None if MMEngine must look for it.

        Args:
            name: As a config writes it: ``mmvidformer.NAME``, a name of MMAction2's, or the full
                name of a class.
            scope: What stands before it if nothing does.
        """
        before, _, word = name.rpartition(".")
        before = before or scope
        if before in SCOPES:
            return self._search(word, self._parts)
        if not before:
            return self._search(word, self._stand_ins)
        if before.partition(".")[0] in PROJECTS:
            return None
        try:
            part = getattr(import_module(before), word, None)
        except ImportError:
            return None
        return part if callable(part) else None

    def get(self, name: str) -> Any:
        """Return the class of a name in a config, MMAction2's too; None if there is none."""
        return self.find(name) or self._registered().get(name)

    def build(self, cfg: Any) -> Any:
        """Build a part of a config: a dictionary of its ``type``, a name or class, and arguments.

        Raises:
            KeyError: If the type is unknown.
        """
        if not isinstance(cfg, Mapping) or "type" not in cfg:
            return self._registered().build(cfg)
        arguments = {**cfg}
        part, scope = arguments.pop("type"), arguments.pop("_scope_", "")
        if isinstance(part, str):
            part = self.find(part, scope)
        if part is None:
            return self._registered().build(cfg)
        if part not in self._stand_ins.values():
            return part(**arguments)
        try:
            signature(part).bind(**arguments)
            return part(**arguments)
        except (TypeError, NotCovered):
            return self._registered().build(cfg)

    def _search(self, name: str, table: Mapping[str, type]) -> type | None:
        while name not in table and self._modules:
            import_module(self._modules[0])
            self._modules.pop(0)
        return table.get(name)

    def _registered(self) -> Any:
        return getattr(import_module(PLUGIN), self._registry)


MODELS = Catalog(
    "MODELS",
    "mmvidformer.models.losses",
    "mmvidformer.models.head",
    "mmvidformer.models.recognizers",
    "mmvidformer.models.registration",
    "mmvidformer.models.preprocessor",
    "mmvidformer.models.heads",
    "mmvidformer.models.camera_head",
    "mmvidformer.models.change_head",
    "mmvidformer.models.task_heads",
    "mmvidformer.models.boxes_head",
    "mmvidformer.models.segments_head",
    "mmvidformer.models.moments_head",
    "mmvidformer.models.horst.heads",
    "mmvidformer.models.horst.recognizer",
    "mmvidformer.models.masked",
    "mmvidformer.models.sigreg",
    "mmvidformer.models.mixup",
)
DATASETS = Catalog(
    "DATASETS",
    "mmvidformer.data.bad_videos",
    "mmvidformer.data.epic_kitchens",
    "mmvidformer.data.image_folder",
    "mmvidformer.data.listed_videos",
    "mmvidformer.data.shards.dataset",
    "mmvidformer.tasks.datasets",
    "mmvidformer.tasks.anticipation",
)
TRANSFORMS = Catalog(
    "TRANSFORMS",
    "mmvidformer.data.transforms.of_mmaction",
    "mmvidformer.data.transforms.decode",
    "mmvidformer.data.transforms.sampling",
    "mmvidformer.data.transforms.whole_frames",
    "mmvidformer.data.transforms.structure",
    "mmvidformer.tasks.transforms",
    # These are for training.
    "mmvidformer.data.transforms.encoded",
    "mmvidformer.data.transforms.scale",
    "mmvidformer.data.transforms.augment",
    "mmvidformer.data.transforms.auto_augment",
)
