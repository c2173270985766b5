"""A recogniser whose backbone is not trained."""

from mmvidformer.models.multi_view import MultiViewRecognizer
from mmvidformer.registry import MODELS


@MODELS.register_module()
class FrozenRecognizer(MultiViewRecognizer):
    """A ``MultiViewRecognizer`` with a backbone that stays as it is: a linear probe.

    Its parameters get no gradient, which distributed training has to know before it starts, and it
    is always in evaluation mode, without stochastic depth. Weights have the names of
    ``Recognizer3D``, and arguments are the same.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.backbone.requires_grad_(False)

    def train(self, mode: bool = True) -> "FrozenRecognizer":
        """Set the mode of all but the backbone."""
        super().train(mode)
        self.backbone.eval()
        return self
