from mmvidformer.registry import HOOKS  # isort: skip  (repairs MMAction2 first)

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvidformer.models.video_transformer import VideoTransformer


@HOOKS.register_module()
class AllTokensHook(Hook):
    """End training on some of the tokens (``token_keep`` of ``VideoConfig``) with all of them.

    Args:
        last: Share of the steps, the last ones, with all tokens.
    """

    def __init__(self, last: float = 0.2) -> None:
        if not 0 <= last <= 1:
            raise ValueError(f"last must be a share from 0 to 1, got {last}")
        self.last = last

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None) -> None:
        """Compute all tokens from this step on, if it is one of the last."""
        if runner.iter >= (1 - self.last) * runner.max_iters:
            for part in runner.model.modules():
                if isinstance(part, VideoTransformer):
                    part.token_keep = 1.0
