"""Registries of mmvidformer: children of MMAction2's, with a scope of their own.

From a config whose ``default_scope`` is ``mmaction`` a part is named ``mmvidformer.ViViT``. From
a sibling project's scope (MMPreTrain, MMDetection) it is named ``mmaction.mmvidformer.ViViT``,
with ``custom_imports = dict(imports=["mmvidformer"])``, since MMEngine finds nested scopes only
among the registries that exist; or by its dotted path ``mmvidformer.models.ViViT``. With
``default_scope = 'mmvidformer'`` plain names fall through to MMAction2 and MMEngine. Nothing is
registered in MMAction2's own nodes, so that its ``TimeSformer`` stays what it is.

The modules that hold the parts are imported at the first look-up, not here: a backbone can be
imported without pulling in ``mmaction.models``. MMEngine does not run the lazy import of a parent
when a look-up climbs to it, so every node lists MMAction2's module before ours.
"""

from mmaction import registry as _mmaction
from mmengine.registry import Registry

SCOPE = "mmvidformer"


def _child(name: str, parent: Registry, *locations: str) -> Registry:
    return Registry(name, parent=parent, scope=SCOPE, locations=list(locations))


MODELS = _child(
    "model",
    _mmaction.MODELS,
    "mmaction.models",
    "mmvidformer.models",
    "mmvidformer.models.heads",
    "mmvidformer.models.mixup",
    "mmvidformer.models.recognizers",
    "mmvidformer.models.horst.heads",
    "mmvidformer.models.horst.recognizer",
)
DATASETS = _child("dataset", _mmaction.DATASETS, "mmaction.datasets", "mmvidformer.datasets")
TRANSFORMS = _child(
    "transform",
    _mmaction.TRANSFORMS,
    "mmaction.datasets.transforms",
    "mmvidformer.datasets.transforms",
)
METRICS = _child("metric", _mmaction.METRICS, "mmaction.evaluation", "mmvidformer.evaluation")
OPTIMIZERS = _child(
    "optimizer",
    _mmaction.OPTIMIZERS,
    "mmaction.engine",
    "mmvidformer.engine.optim.optimizers",
)
OPTIM_WRAPPER_CONSTRUCTORS = _child(
    "optimizer wrapper constructor",
    _mmaction.OPTIM_WRAPPER_CONSTRUCTORS,
    "mmaction.engine",
    "mmvidformer.engine.optim.layer_decay",
)
HOOKS = _child(
    "hook",
    _mmaction.HOOKS,
    "mmaction.engine",
    "mmvidformer.engine.bad_videos",
    "mmvidformer.engine.checkpointing.hook",
    "mmvidformer.engine.checkpointing.preemption",
    "mmvidformer.engine.data_root",
    "mmvidformer.engine.optim.compile",
    "mmvidformer.engine.optim.non_finite",
    "mmvidformer.engine.preflight",
)
LOOPS = _child("loop", _mmaction.LOOPS, "mmaction.engine", "mmvidformer.engine.checkpointing.loop")
DATA_SAMPLERS = _child(
    "data sampler", _mmaction.DATA_SAMPLERS, "mmvidformer.engine.checkpointing.loop"
)
