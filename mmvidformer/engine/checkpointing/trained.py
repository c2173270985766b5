from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.runner import Runner

from mmvidformer.convert.io import keep_trained
from mmvidformer.registry import HOOKS


@HOOKS.register_module()
class SaveTrainedHook(Hook):
    """Saves no frozen weights, but where they are, so that checkpoints of LoRA are small.

    The tools read them as if they held all weights (``convert.io``).

    Args:
        base: File or address of the frozen weights.
    """

    priority = "LOWEST"  # after hooks that exchange weights, such as EMAHook

    def __init__(self, base: str) -> None:
        self.base = base

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Drop the frozen weights."""
        if not is_main_process():  # others write nothing, and may have no values
            return
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        frozen = [name for name, value in model.named_parameters() if not value.requires_grad]
        keep_trained(checkpoint, frozen, self.base)
