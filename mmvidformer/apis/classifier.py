"""Recognizers as plain PyTorch modules, with the interface of timm's models."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.tokens import Tokens
from mmvidformer.models.fast.recompute import recompute
from mmvidformer.models.horst.layer import HorstOutput

Features = Tokens | HorstOutput
Logits = Tensor | dict[str, Tensor]


class VideoClassifier(nn.Module):
    """Backbone, neck and head of a recognizer as a plain module: normalized clips in, logits out.

    Methods and attributes mean what they mean in timm. Weights have the names that they have in the
    recognizer, so checkpoints fit both.

    Args:
        recognizer: A recognizer that is built from a config. Its parts are shared, not copied.
        head: Config of its head.
        pretrained_cfg: Description of the input, the classes and the published weights.

    Attributes:
        num_classes: Number of classes, by task if there are several; 0 without a classifier.
        num_features: Width of the features of the backbone, or of the neck.
        head_hidden_size: Width of what the classifier reads.
        pretrained_cfg: The description; also named ``default_cfg``.
    """

    backbone: Any
    neck: Any
    cls_head: Any

    def __init__(
        self, recognizer: nn.Module, head: Mapping, pretrained_cfg: Mapping | None = None
    ) -> None:
        super().__init__()
        self.backbone, self.cls_head = recognizer.backbone, recognizer.cls_head
        self.neck = getattr(recognizer, "neck", None)
        self.recurrent = hasattr(recognizer, "stream")
        self._head = {key: value for key, value in head.items() if key != "type"}
        self._count = "tasks" if "tasks" in self._head else "num_classes"
        self._classifier = "fc_cls" if hasattr(self.cls_head, "fc_cls") else "classifier"
        classifier = {"classifier": f"cls_head.{self._classifier}"}
        self.pretrained_cfg = self.default_cfg = {**(pretrained_cfg or {}), **classifier}
        self.num_classes: int | Mapping[str, int] = self._head[self._count]
        self.num_features: int = self.cls_head.in_channels
        self.head_hidden_size = getattr(self.get_classifier(), "in_features", self.num_features)

    def forward(self, clip: Tensor) -> Logits:
        """Map normalized pixels (B, 3, T', H', W') to what ``forward_head`` returns."""
        return self.forward_head(self.forward_features(clip))

    def forward_features(self, clip: Tensor, outputs: list | None = None) -> Features:
        """Encode a clip without pooling.

        Args:
            clip: Normalized pixels (B, 3, T', H', W').
            outputs: List to which the output of each block, or layer of the neck, is appended.

        Returns:
            Normalized ``Tokens``, with ``places`` (B, T, H, W, D) and, as ``prefix``, the class
            token. With a neck, the ``HorstOutput`` of all time steps.
        """
        if self.neck is None:
            return self.backbone.forward_features(clip, outputs)
        frames = clip.transpose(1, 2)
        maps = self.backbone(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        return self.neck(maps, outputs=outputs)[0]

    def forward_head(self, features: Features, pre_logits: bool = False) -> Logits:
        """Pool and classify the result of ``forward_features``.

        Returns:
            Logits (B, classes), by task if there are several; of anticipation (B, times, classes);
            or what the classifier reads (``pre_logits``).
        """
        head = self.cls_head
        if pre_logits:  # a copy that shares all parts but the classifier
            head = copy.copy(head)
            head._modules = {**head._modules, self._classifier: _NoClassifier()}
        inputs: Any = features
        if self.neck is None:
            inputs = self.backbone.pool_features(features)
            if self.recurrent:  # without a neck, the tokens are the outputs
                inputs = HorstOutput(*[inputs.movedim(-1, 2)] * 3)
        logits, tasks = head(inputs), self.num_classes
        if isinstance(logits, dict) or isinstance(tasks, int) or pre_logits:
            return logits
        return dict(zip(tasks, logits.split(list(tasks.values()), dim=1), strict=True))

    def forward_intermediates(
        self,
        clip: Tensor,
        indices: int | Sequence[int] | None = None,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        intermediates_only: bool = False,
    ) -> list | tuple[Features, list]:
        """Encode a clip, and keep the grids after some blocks.

        Args:
            clip: Normalized pixels (B, 3, T', H', W').
            indices: Numbers of the blocks, from 0 over all encoders; -1 is the last. An integer n
                stands for the last n. Default: all. For HORST, numbers of the layers.
            return_prefix_tokens: Whether to return pairs of grid and class tokens. The latter are
                (B, 0, D), (B, 1, D), or (B, T, D) if each frame has its own.
            norm: Whether to apply the last norm of the block's encoder. HORST has none.
            intermediates_only: Whether to return the grids alone.

        Returns:
            Result of ``forward_features``, and grids (B, T, H, W, D).
        """
        outputs: list = []
        features = self.forward_features(clip, outputs)
        if self.neck is not None:
            outputs = [Tokens.of(y.movedim(2, -1)) for y in outputs]
        elif norm:
            encoders = [encoder for encoder in self.backbone.encoders for _ in encoder.blocks]
            outputs = [
                tokens._replace(tensor=encoder.norm(tokens.tensor))
                for encoder, tokens in zip(encoders, outputs, strict=True)
            ]
        indices = len(outputs) if indices is None else indices
        grids: list = []
        for i in range(-indices, 0) if isinstance(indices, int) else indices:
            # An encoder of single frames has frames as clips.
            parts = outputs[i].places, outputs[i].prefix
            grid, prefix = (x.reshape(len(clip), -1, *x.shape[2:]) for x in parts)
            grids.append((grid, prefix) if return_prefix_tokens else grid)
        return grids if intermediates_only else (features, grids)

    def get_classifier(self) -> nn.Module:
        """Last linear layer, or the module for all tasks of anticipation."""
        return getattr(self.cls_head, self._classifier)

    def reset_classifier(self, num_classes: int | Mapping[str, int]) -> None:
        """Replace the classifier by a new one. Hidden layers of the head keep their weights.

        ``num_classes`` is by task if the head has tasks, or a ``UserError`` is raised. With 0 the
        model returns what the classifier would read.
        """
        if num_classes:
            if isinstance(num_classes, Mapping) != (self._count == "tasks"):
                old = self._head[self._count]
                raise UserError(f"num_classes must be given as {old} is, got {num_classes}")
            self._head[self._count] = num_classes
        head = type(self.cls_head)(**self._head)
        if hasattr(head, "init_weights"):
            head.init_weights()
        for name, part in self.cls_head.named_children():
            if name != self._classifier:
                setattr(head, name, part)
        if not num_classes:
            setattr(head, self._classifier, _NoClassifier())
        self.num_classes = num_classes
        self.cls_head = head.train(self.training).to(next(self.parameters()))

    def no_weight_decay(self) -> set[str]:
        """Names of position tables and class tokens, which timm exempts from weight decay."""
        names = (name for name, _ in self.named_parameters())
        return {name for name in names if ".pos_embed." in name or name.endswith(".cls_token")}

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute each block in the backward pass instead of keeping its activations."""
        recompute(self, enable)


class _NoClassifier(nn.Identity):
    def forward(self, x: Tensor, *unused: object) -> Tensor:
        return x
