"""torch.compile for the parts of a recogniser."""

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
    """Compile parts of a recogniser in place; names of weights stay as they are.

    Args:
        model: A recogniser.
        parts: Names of its parts; of those that it has, each becomes a graph of its own. With a
            class of this name instead (``'TransformerBlock'``), each module of that class does.
        options: Arguments of ``torch.compile``; by default ``fullgraph=True``, so that a graph
            that would break is an error.

    Returns:
        Names of what is compiled.

    Raises:
        ValueError: If the model has none of them.
    """
    options = {"fullgraph": True, **(options or {})}
    found = {
        name: module
        for name, module in model.named_modules()
        if name in parts or type(module).__name__ in parts
    }
    if not found:
        raise ValueError(f"the model has none of the parts {list(parts)} to compile")
    for module in found.values():
        module.compile(**options)
    return list(found)


@HOOKS.register_module()
class CompileHook(Hook):
    """Compile a recogniser before training, validation or testing.

    MMEngine's own switch, ``compile = dict(...)``, compiles ``train_step``: the preprocessor, the
    losses and the optimiser's step with the model. There graphs break wherever NumPy counts an
    accuracy or a data sample is touched, and validation and testing run uncompiled.

    Args:
        parts: As of ``compile_parts``. Under FSDP, which wraps each block,
            ``['TransformerBlock']``.
        **options: Arguments of ``torch.compile``, such as ``mode``, ``backend`` or ``dynamic``;
            ``fullgraph`` is True where it is not given.
    """

    def __init__(self, parts: Sequence[str] = ("backbone", "neck"), **options: object) -> None:
        self.parts = tuple(parts)
        self.options = options

    def before_run(self, runner: Runner) -> None:
        """Compile; nothing runs before the first batch.

        Raises:
            ValueError: If the model has none of the parts.
        """
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        done = compile_parts(model, self.parts, self.options)
        runner.logger.info(f"compiled on first use: {', '.join(done)}")
