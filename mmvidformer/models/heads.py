"""Classification heads that MMAction2 does not have."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers import INITS, POOLINGS
from mmvidformer.layers.config import Choice
from mmvidformer.layers.outputs import average_places
from mmvidformer.layers.samples import Sample, Samples
from mmvidformer.lookup import look_up
from mmvidformer.models.head import Head, TimeSformerHead, init_linear, topk_accuracies


def in_order(tasks: Mapping[str, int]) -> dict[str, int]:
    """Return tasks and their numbers of classes; labels and outputs follow their order.

    Raises:
        UserError: If the order is not alphabetical. MMEngine sorts the keys of a config that it
            saves, so that another order would be lost.
    """
    if list(tasks) != sorted(tasks):
        raise UserError(
            f"tasks, and labels, must be in alphabetical order: {', '.join(sorted(tasks))}; "
            f"got {', '.join(tasks)}"
        )
    return dict(tasks)


def stack_labels(
    samples: Sequence[Sample], tasks: Mapping[str, int], mixed: bool = False
) -> Tensor:
    """Stack the labels of samples to (N, tasks), or to distributions if they may be mixed.

    Raises:
        UserError: If labels have another shape than (N, tasks) and, mixed, (N, sum of classes).
    """
    labels = torch.stack([sample.gt_label for sample in samples])
    classes = sum(tasks.values())
    if labels.shape[1] != len(tasks) and not (mixed and labels.shape[1] == classes):
        wanted = f"one class for each of {len(tasks)} tasks ({', '.join(tasks)})"
        wanted += f" or distributions over {classes} classes" if mixed else ""
        raise UserError(f"labels must be {wanted}, got {tuple(labels.shape)}")
    return labels


def one_hot_tasks(labels: Tensor, tasks: Mapping[str, int]) -> Tensor:
    """Map labels (N, tasks) to distributions over the classes of all tasks (N, sum of classes)."""
    one_hot = [
        F.one_hot(label, classes)
        for label, classes in zip(labels.unbind(1), tasks.values(), strict=True)
    ]
    return torch.cat(one_hot, dim=1)


def refuse_unread(head: nn.Module, options: Mapping[str, object], *names: str) -> None:
    """Raise a UserError if options of these names are given; the head does not read them."""
    for name in names:
        if options.get(name) or options.get(name) is False:
            raise UserError(
                f"{name}={options[name]!r} has no effect in {type(head).__name__}; leave it out"
            )


@MODELS.add
class ZeroInitHead(TimeSformerHead):
    """MMAction2's linear head on features (N, D), initialized to zero.

    Scenic's ViViT initializes its output projection to zero; ``TimeSformerHead(init_std=0)``
    divides by zero. Arguments are those of ``TimeSformerHead``.
    """

    def init_weights(self) -> None:
        """Set weights and biases to zero."""
        nn.init.zeros_(self.fc_cls.weight)
        nn.init.zeros_(self.fc_cls.bias)


@MODELS.add
class HiddenLayerHead(TimeSformerHead):
    """MMAction2's linear head with a hidden layer before it, for features (N, D) or tokens.

    Linear layer, activation, dropout, linear layer. Of tokens (N, ..., D), such as those of frames,
    the mean is taken after the activation (TRecViT).

    TimeSformer's text has such a head (below eq. 10) and gives neither its width nor its
    activation; the released code and weights have a linear one.

    Args:
        num_classes: Number of classes.
        in_channels: Feature width D.
        hidden_dim: Width of the hidden layer. Default: D.
        act: Activation, ``'gelu'`` or ``'tanh'`` (ViT's and TRecViT's).
        **kwargs: Further arguments of ``TimeSformerHead``.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        hidden_dim: int | None = None,
        act: str = "gelu",
        **kwargs: object,
    ) -> None:
        super().__init__(num_classes, hidden_dim or in_channels, **kwargs)
        self.act = look_up({"gelu": F.gelu, "tanh": torch.tanh}, act, "activation")
        self.fc_hidden = nn.Linear(in_channels, self.in_channels)
        self.in_channels = in_channels

    def init_weights(self) -> None:
        """Draw the weights of both layers from a truncated normal, and set the biases to zero."""
        super().init_weights()
        init_linear(self.fc_hidden, self.init_std)

    def forward(self, x: Tensor, **kwargs) -> Tensor:
        """Map features (N, D), or tokens (N, ..., D), to logits (N, num_classes)."""
        return super().forward(average_places(self.act(self.fc_hidden(x))), **kwargs)


@MODELS.add
class TokenMlpHead(Head):
    """Pool tokens and classify them with a hidden layer.

    Dropout on each token, mean over the grid, layer norm (epsilon 1e-5), linear layer, GELU,
    dropout, linear layer: the head of the official code of feature fixation, for normalized tokens.
    Linear weights are initialized from a truncated normal with standard deviation 0.02, biases to
    zero.

    Args:
        num_classes: Number of classes.
        in_channels: Token width D.
        hidden_dim: Width of the hidden layer.
        dropout_ratio: Rate of both dropouts.
        **kwargs: Further arguments of ``Head``, such as ``loss_cls`` and ``topk``.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        hidden_dim: int = 768,
        dropout_ratio: float = 0.5,
        **kwargs: object,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        self.dropout = nn.Dropout(dropout_ratio)
        self.norm = nn.LayerNorm(in_channels)
        self.fc_hidden = nn.Linear(in_channels, hidden_dim)
        self.fc_cls = nn.Linear(hidden_dim, num_classes)

    def init_weights(self) -> None:
        """Draw the linear weights and set the biases to zero."""
        self.apply(INITS["timm"])

    def forward(self, x: Tensor, **kwargs) -> Tensor:
        """Map tokens (N, T, H, W, D), or any (N, ..., D), to logits (N, num_classes)."""
        x = self.norm(average_places(self.dropout(x)))
        return self.fc_cls(self.dropout(F.gelu(self.fc_hidden(x))))


@MODELS.add
class AttentiveHead(Head):
    """Pool tokens by the attention of a learned query and classify them (V-JEPA's classifier).

    It takes the tokens of a backbone with ``pool="none"``, or with ``pool="all"``, also those of no
    place.

    Args:
        num_classes: Number of classes.
        in_channels: Token width D.
        num_heads: Number of attention heads.
        depth: Number of blocks of self-attention before, of V-JEPA's pooling.
        norm: Norm, as in ``EncoderConfig``.
        pooling: ``'vjepa'`` (``layers.AttentivePooling``) or ``'videoprism'``, one attention with
            scaled channels, ``'siglip'``, one attention and an MLP, or ``'internvideo'``, one
            attention of the mean (``layers.pooling``); or a dictionary of the name as ``type`` and
            options.
        dropout_ratio: Dropout rate of the pooled features.
        **kwargs: Further arguments of ``Head``, such as ``loss_cls`` and ``topk``.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        num_heads: int,
        depth: int = 0,
        norm: Choice = "layer",
        dropout_ratio: float = 0.0,
        pooling: Choice = "vjepa",
        **kwargs: object,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        options = {"type": pooling} if isinstance(pooling, str) else dict(pooling)
        options |= {"depth": depth} if depth else {}
        self.pooling = POOLINGS.build(options, dim=in_channels, num_heads=num_heads, norm=norm)
        self.dropout = nn.Dropout(dropout_ratio)
        self.fc_cls = nn.Linear(options.get("out_dim") or in_channels, num_classes)

    def init_weights(self) -> None:
        """Draw weights and query from a truncated normal (deviation 0.02); biases are zero."""
        self.apply(INITS["timm"])
        if hasattr(self.pooling, "query"):
            nn.init.trunc_normal_(self.pooling.query, std=0.02)

    def forward(self, x: Tensor, **kwargs) -> Tensor:
        """Map tokens (N, T, H, W, D), or any (N, ..., D), to logits (N, num_classes)."""
        return self.fc_cls(self.dropout(self.pooling(x)))


@MODELS.add
class MultiTaskHead(ZeroInitHead):
    """A ``ZeroInitHead`` whose outputs are the classes of several tasks, one task after another.

    ViViT on EPIC-Kitchens-100 (section 4.1 and the official code): 397 outputs, 300 nouns and then
    97 verbs. The loss is the mean of the tasks' cross-entropies. The ``gt_label`` of a sample holds
    one class per task in this order or, after mixing, a distribution over all outputs. The
    prediction is a dictionary of scores by task; metrics combine them to the 29,100 actions.

    Args:
        tasks: Number of classes of each task by its name, in the order of the outputs, which must
            be alphabetical.
        in_channels: Feature width D.
        average_clips: ``'score'`` averages the logits of the views (ViViT), ``'prob'`` their
            probabilities; None keeps the views.
        **kwargs: Further arguments of ``TimeSformerHead``. ``loss_cls`` is the loss of a task and
            must take soft labels; ``label_smooth_eps`` applies within each task, after mixing.

    Raises:
        UserError: If the tasks are in another order, or labels have neither of the two forms.
    """

    def __init__(
        self,
        tasks: Mapping[str, int],
        in_channels: int,
        average_clips: str | None = "score",
        **kwargs: object,
    ) -> None:
        super().__init__(sum(tasks.values()), in_channels, average_clips=average_clips, **kwargs)
        self.tasks = in_order(tasks)

    def loss_by_feat(self, cls_scores: Tensor, data_samples: Samples) -> dict[str, Tensor]:
        """Compute the mean of the tasks' losses, each task's loss, and accuracies for hard labels.

        Returns:
            ``loss_cls``, and for each task ``<task>_ce`` and ``<task>_top<k>_acc``, whose names do
            not contain "loss", so that they are logged but not added to the loss.
        """
        labels = stack_labels(data_samples, self.tasks, mixed=True).to(cls_scores.device)
        hard = labels.shape[1] == len(self.tasks)
        targets = one_hot_tasks(labels, self.tasks) if hard else labels
        scores_by_task = self._split(cls_scores)
        targets_by_task = self._split(targets.to(cls_scores))
        eps = self.label_smooth_eps
        losses: list[Tensor] = []
        logged: dict[str, Tensor] = {}
        for name, scores, target in zip(self.tasks, scores_by_task, targets_by_task, strict=True):
            if hard:
                accuracies = topk_accuracies(scores, target.argmax(dim=1), self.topk)
                logged |= {f"{name}_{key}": value for key, value in accuracies.items()}
            loss = self.loss_cls(scores, (1 - eps) * target + eps / target.shape[1])
            losses.append(loss)
            logged[f"{name}_ce"] = loss.detach()
        return {"loss_cls": torch.stack(losses).mean(), **logged}

    def _split(self, outputs: Tensor) -> tuple[Tensor, ...]:
        return outputs.split(list(self.tasks.values()), dim=1)

    def predict_by_feat(self, cls_scores: Tensor, data_samples: Samples) -> Samples:
        """Average the views of logits (N * views, sum of classes), and store the scores by task."""
        views = len(cls_scores) // len(data_samples)
        fused = {
            name: self.average_clip(scores, num_segs=views)
            for name, scores in zip(self.tasks, self._split(cls_scores), strict=True)
        }
        for i, sample in enumerate(data_samples):
            sample.set_pred_score({name: scores[i] for name, scores in fused.items()})
        return data_samples
