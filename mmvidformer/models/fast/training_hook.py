from mmvidformer.registry import HOOKS  # isort: skip  (repairs MMAction2 first)

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvidformer.models.fast.onednn import mkl_is_slow, optimize_for_training


@HOOKS.register_module()
class CpuTrainingHook(Hook):
    """Train linear layers in oneDNN where PyTorch's own products are slow (``mkl_is_slow``).

    This changes nothing on a GPU. See ``optimize_for_training``.
    ``default_hooks.cpu_training=None`` turns it off.
    """

    def before_train(self, runner: Runner) -> None:
        """Change the model."""
        if mkl_is_slow():
            optimize_for_training(runner.model)
