"""The plugin for MMAction2: registries that are children of MMAction2's, with their own scope.

Importing it applies the repairs of ``mmvidformer.registry.repairs`` and registers the addresses of
``mmvidformer.checkpoints.addresses``. Configs name it in ``custom_imports``; MMEngine imports it
too when it looks up a name with the scope ``mmvidformer``.

In a config with ``default_scope = 'mmaction'``, a name is written ``mmvidformer.ViViT``; in a
sibling project (MMPreTrain, MMDetection) ``mmaction.mmvidformer.ViViT``, or the dotted path
``mmvidformer.models.ViViT``. Nothing is registered in MMAction2's own nodes, so its ``TimeSformer``
stays what it is.

Modules are imported at the first look-up in their registry, so a backbone can be imported without
``mmaction.models``. MMEngine does not run the lazy imports of a parent when a look-up reaches it,
so every node lists MMAction2's module before ours.
"""

from mmvidformer.registry import repairs

repairs.apply()

from mmaction import registry as _mmaction  # noqa: E402
from mmengine.registry import Registry, root  # noqa: E402

from mmvidformer.checkpoints import addresses  # noqa: E402

addresses.register()

SCOPE = "mmvidformer"


def _child(name: str, parent: Registry, *locations: str) -> Registry:
    return Registry(name, parent=parent, scope=SCOPE, locations=list(locations))


MODELS = _child(
    "model",
    _mmaction.MODELS,
    "mmaction.models",
    "mmvidformer.models.registration",
    "mmvidformer.models.boxes_head",
    "mmvidformer.models.camera_head",
    "mmvidformer.models.change_head",
    "mmvidformer.models.heads",
    "mmvidformer.models.masked",
    "mmvidformer.models.mixup",
    "mmvidformer.models.preprocessor",
    "mmvidformer.models.recognizers",
    "mmvidformer.models.segments_head",
    "mmvidformer.models.moments_head",
    "mmvidformer.models.task_heads",
    "mmvidformer.models.horst.heads",
    "mmvidformer.models.horst.recognizer",
)
DATASETS = _child(
    "dataset",
    _mmaction.DATASETS,
    "mmaction.datasets",
    "mmvidformer.tasks.annotations",
    "mmvidformer.tasks.anticipation",
    "mmvidformer.tasks.regression",
    "mmvidformer.data.bad_videos",
    "mmvidformer.tasks.boxes",
    "mmvidformer.data.epic_kitchens",
    "mmvidformer.data.image_folder",
    "mmvidformer.data.listed_videos",
    "mmvidformer.data.shards.dataset",
)
TRANSFORMS = _child(
    "transform",
    _mmaction.TRANSFORMS,
    "mmaction.datasets.transforms",
    "mmvidformer.tasks.annotations",
    "mmvidformer.tasks.boxes",
    "mmvidformer.tasks.features",
    "mmvidformer.data.transforms.augment",
    "mmvidformer.data.transforms.auto_augment",
    "mmvidformer.data.transforms.decode",
    "mmvidformer.data.transforms.encoded",
    "mmvidformer.data.transforms.motion_crop",
    "mmvidformer.data.transforms.sampling",
    "mmvidformer.data.transforms.structure",
    "mmvidformer.data.transforms.whole_frames",
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
    "evaluator",
    _mmaction.EVALUATOR,
    "mmaction.evaluation",
    "mmvidformer.tasks.evaluator",
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
    "mmvidformer.models.all_tokens_hook",
    "mmvidformer.models.fast.compile_hook",
    "mmvidformer.models.fast.training_hook",
)
LOOPS = _child("loop", _mmaction.LOOPS, "mmaction.engine", "mmvidformer.engine.checkpointing.loop")
DATA_SAMPLERS = _child(
    "data sampler",
    _mmaction.DATA_SAMPLERS,
    "mmvidformer.finetune.balance",
    "mmvidformer.finetune.coverage",
    "mmvidformer.engine.checkpointing.loop",
)
