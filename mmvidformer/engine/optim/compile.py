"""torch.compile for parts of a recognizer."""

from collections.abc import Mapping, Sequence

from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.runner import Runner
from torch import nn

from mmvidformer.registry import HOOKS


def compile_parts(
    model: nn.Module,
    parts: Sequence[str] = ("backbone", "neck"),
    options: Mapping[str, object] | None = None,
) -> list[str]:
    """Compile parts of a recognizer in place, as ``CompileHook`` does, and return their names."""
    compiled = []
    for name, module in model.named_modules():
        # Sharding gives a module a subclass of its class.
        if name in parts or any(kind.__name__ in parts for kind in type(module).__mro__):
            module.compile(**{"fullgraph": True, **(options or {})})
            compiled.append(name)
    if not compiled:
        raise ValueError(f"the model has none of the parts {list(parts)} to compile")
    return compiled


@HOOKS.register_module()
class CompileHook(Hook):
    """Compile a recognizer before training, validation or testing.

    MMEngine's own setting ``compile = dict(...)`` compiles ``train_step``, where graphs break at
    the preprocessor, the accuracies and the data samples, and does not compile validation and
    testing.

    Args:
        parts: Names of submodules, each of which becomes one graph, or names of classes, such as
            ``'TransformerBlock'``, all of whose instances are compiled. Missing ones are skipped.
            Sharded training gathers each block by itself and needs ``['TransformerBlock']``.
        **options: Arguments of ``torch.compile``, such as ``mode``, ``backend`` or ``dynamic``.
            ``fullgraph`` is True by default, so a graph break is an error.

    Raises:
        ValueError: If the model has none of the parts.
    """

    def __init__(self, parts: Sequence[str] = ("backbone", "neck"), **options: object) -> None:
        self.parts, self.options = parts, options

    def before_run(self, runner: Runner) -> None:
        """Mark the parts; they are compiled at the first batch."""
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        done = compile_parts(model, self.parts, self.options)
        runner.logger.info(f"compiled at the first batch: {', '.join(done)}")
