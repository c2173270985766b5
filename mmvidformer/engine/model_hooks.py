"""Hooks of training that change the model."""

from mmvidformer.errors import UserError

from mmvidformer.registry import HOOKS  # isort: skip  (repairs MMAction2 first)

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvidformer.models.fast.compiled_blocks import compile_blocks
from mmvidformer.models.fast.training import optimize_for_training
from mmvidformer.models.video_transformer import VideoTransformer


@HOOKS.register_module()
class FastTrainingHook(Hook):
    """Train with ``optimize_for_training``: the same gradients in less time.

    ``default_hooks.fast_training=None`` turns it off.
    """

    def before_train(self, runner: Runner) -> None:
        """Change the model."""
        optimize_for_training(runner.model)


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


@HOOKS.register_module()
class AllTokensHook(Hook):
    """End training on some of the tokens (``token_keep`` of ``VideoConfig``) with all of them.

    Args:
        last: Share of the steps, the last ones, with all tokens.
    """

    def __init__(self, last: float = 0.2) -> None:
        if not 0 <= last <= 1:
            raise UserError(f"last must be a share from 0 to 1, got {last}")
        self.last = last
        self._shares: list[tuple[VideoTransformer, float]] = []

    def before_train(self, runner: Runner) -> None:
        """Note what share of its tokens each backbone computes."""
        parts = [part for part in runner.model.modules() if isinstance(part, VideoTransformer)]
        self._shares = [(part, part.token_keep) for part in parts]

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None) -> None:
        """Compute all tokens from this step on, if it is one of the last."""
        if runner.iter >= (1 - self.last) * runner.max_iters:
            for part, _ in self._shares:
                part.token_keep = 1.0

    def after_train(self, runner: Runner) -> None:
        """Set the shares back, for another training of the same model; not if it is interrupted."""
        for part, share in self._shares:
            part.token_keep = share
