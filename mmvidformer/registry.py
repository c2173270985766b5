"""The plugin for MMAction2: registries that are children of MMAction2's, with their own scope.

Importing it applies ``mmvidformer.repairs`` and gives MMEngine the addresses of checkpoints.
Configs name it in ``custom_imports``. MMEngine imports it, too, when it looks up a name with the
scope ``mmvidformer``.

In a config with ``default_scope = 'mmaction'``, a name is written ``mmvidformer.ViViT``; in a
sibling project (MMPreTrain, MMDetection) ``mmaction.mmvidformer.ViViT``, or the dotted path
``mmvidformer.models.ViViT``. Nothing is registered in MMAction2's own nodes, so its ``TimeSformer``
stays what it is.

Modules are imported at the first look-up in their registry, so a backbone can be imported without
``mmaction.models``. MMEngine does not run the lazy imports of a parent when a look-up reaches it,
so every node lists MMAction2's module before ours. Models, datasets and transforms have their names
from ``mmvidformer.catalog``, which does without MMAction2.
"""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

import logging

from mmaction import registry as _mmaction
from mmengine.logging import print_log
from mmengine.registry import Registry, root

from mmvidformer import catalog
from mmvidformer.checkpoints import addresses, mmengine_loader

addresses.register()
mmengine_loader.make_safe()


class _ToMMEngine(logging.Handler):
    """Writes what this package logs into MMEngine's log, too, that of a run."""

    def emit(self, record: logging.LogRecord) -> None:
        print_log(record.getMessage(), logger="current", level=record.levelno)


logging.getLogger("mmvidformer").addHandler(_ToMMEngine(logging.INFO))
logging.getLogger("mmvidformer").setLevel(logging.INFO)

SCOPE = "mmvidformer"


class Named(Registry):
    """A registry that has the names of a catalog, too."""

    def __init__(self, parts: catalog.Catalog, name: str, parent: Registry, location: str) -> None:
        super().__init__(name, parent=parent, scope=SCOPE, locations=[location])
        self.catalog = parts

    def import_from_location(self) -> None:
        """Add the names at the first look-up, as MMEngine imports modules."""
        if not self._imported:
            super().import_from_location()
            for name, part in self.catalog.parts.items():
                self._module_dict.setdefault(name, part)


def _child(name: str, parent: Registry, *locations: str) -> Registry:
    return Registry(name, parent=parent, scope=SCOPE, locations=list(locations))


MODELS = Named(catalog.MODELS, "model", _mmaction.MODELS, "mmaction.models")
DATASETS = Named(catalog.DATASETS, "dataset", _mmaction.DATASETS, "mmaction.datasets")
TRANSFORMS = Named(
    catalog.TRANSFORMS, "transform", _mmaction.TRANSFORMS, "mmaction.datasets.transforms"
)
METRICS = _child(
    "metric",
    _mmaction.METRICS,
    "mmaction.evaluation",
    "mmvidformer.tasks.frames_metric",
    "mmvidformer.tasks.metrics",
    "mmvidformer.tasks.moments_metric",
    "mmvidformer.tasks.score_files",
    "mmvidformer.tasks.multi_task",
)
EVALUATOR = _child(
    "evaluator", _mmaction.EVALUATOR, "mmaction.evaluation", "mmvidformer.tasks.evaluator"
)
OPTIMIZERS = _child(
    "optimizer", _mmaction.OPTIMIZERS, "mmaction.engine", "mmvidformer.engine.optim.optimizers"
)
OPTIM_WRAPPERS = _child(
    "optimizer wrapper",
    _mmaction.OPTIM_WRAPPERS,
    "mmaction.engine",
    "mmvidformer.engine.optim.precision",
)
OPTIM_WRAPPER_CONSTRUCTORS = _child(
    "optimizer wrapper constructor",
    _mmaction.OPTIM_WRAPPER_CONSTRUCTORS,
    "mmaction.engine",
    "mmvidformer.engine.optim.optimizers",
)
PARAM_SCHEDULERS = _child(
    "parameter scheduler",
    _mmaction.PARAM_SCHEDULERS,
    "mmaction.engine",
    "mmvidformer.engine.optim.schedules",
)
# MMEngine builds runners before a scope is set, and from its root finds direct children only.
RUNNERS = _child("runner", root.RUNNERS, "mmvidformer.engine.fsdp", "mmvidformer.engine.quiet")
HOOKS = _child(
    "hook",
    _mmaction.HOOKS,
    "mmaction.engine",
    "mmvidformer.engine.checkpointing.hook",
    "mmvidformer.engine.preflight.hook",
    "mmvidformer.engine.training_guard",
    "mmvidformer.engine.model_hooks",
)
LOOPS = _child("loop", _mmaction.LOOPS, "mmaction.engine", "mmvidformer.engine.checkpointing.loop")
DATA_SAMPLERS = _child(
    "data sampler",
    _mmaction.DATA_SAMPLERS,
    "mmvidformer.finetune.balance",
    "mmvidformer.finetune.coverage",
    "mmvidformer.engine.checkpointing.loop",
)
