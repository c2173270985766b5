from mmvidformer.registry import HOOKS  # isort: skip  (repairs MMAction2 first)

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvidformer.models.fast.compiled_blocks import compile_blocks


@HOOKS.register_module()
class CompileBlocksHook(Hook):
    """Compile each block of a model for training.

    Args:
        **options: Arguments of ``torch.compile``.
    """

    def __init__(self, **options: object) -> None:
        self.options = options

    def before_train(self, runner: Runner) -> None:
        """Change the model; see ``compile_blocks``."""
        compile_blocks(runner.model, **self.options)
