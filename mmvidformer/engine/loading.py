"""Recognizers built from a config, and whether the weights of a checkpoint fit them."""

import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from mmengine.config import Config
from mmengine.runner import CheckpointLoader
from torch import Tensor, nn
from torch.distributions import Distribution

from mmvidformer.config import CONFIG_SUFFIXES, config_scope
from mmvidformer.registry import MODELS

HEAD = "cls_head."
Purpose = Literal["evaluation", "features", "resume", "start"]


class WrongWeights(ValueError):
    """Weights that do not fit a model."""

    for_user = True


@dataclass(frozen=True)
class Fit:
    """How a state dict fits a model.

    Args:
        matched: Names with the same shape in both, or with a shape that the model resizes.
        missing: Names that only the model has.
        unexpected: Names that only the state dict has.
        reshaped: Names with another shape, and both shapes in words.
    """

    matched: frozenset[str]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    reshaped: Mapping[str, str]

    def misfits(self) -> set[str]:
        """Names that are missing, unexpected or of another shape."""
        return {*self.missing, *self.unexpected, *self.reshaped}

    def check(self, source: str, purpose: Purpose) -> None:
        """Check that the weights are good enough for a purpose.

        Evaluating and resuming need an exact fit, features an exact fit except for the head. To
        start training, half of the tensors of the backbone are enough.

        Raises:
            WrongWeights: If they are not. The message names ``source``, their file or address.
        """
        wrong = self.misfits()
        if purpose == "features":
            wrong = {name for name in wrong if not name.startswith(HEAD)}
        elif purpose == "start":
            own = {*self.matched, *self.missing, *self.reshaped}
            body = {name for name in own if name.startswith("backbone.")}
            body = body or {name for name in own if not name.startswith(HEAD)}
            wrong = set() if 2 * len(body & self.matched) >= len(body) else wrong
        if wrong:
            hint = "" if self.matched else "; tools/convert_checkpoint.py converts foreign files"
            raise WrongWeights(f"{source} does not fit the model of the config: {self}{hint}")

    def __str__(self) -> str:
        """Counts and first names of what does not fit."""
        parts = {
            "missing": self.missing,
            "unexpected": self.unexpected,
            "of another shape": tuple(self.reshaped.values()),
        }
        return "; ".join(f"{len(v)} {what} ({_some(v)})" for what, v in parts.items() if v)


def load_recognizer(
    cfg: Config, checkpoint: str | None, device: str | torch.device = "cpu", head: bool = True
) -> nn.Module:
    """Build the recognizer of a config for evaluation.

    Args:
        cfg: Config of a recognizer.
        checkpoint: File or address of the weights; None for initial weights.
        device: Device of the model.
        head: Whether the weights of the head must fit too.

    Raises:
        FileNotFoundError: If the file does not exist.
        WrongWeights: If the weights do not fit the model.
    """
    with config_scope(cfg):
        model = MODELS.build(cfg.model)
    if checkpoint is None:
        model.init_weights()
    else:
        content = read_checkpoint(checkpoint)
        load_weights(model, content).check(checkpoint, "evaluation" if head else "features")
    return model.to(device).eval()


def build_meta_model(cfg: Config) -> nn.Module:
    """Build the model of a config on the meta device, without memory for its weights."""
    with config_scope(cfg), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # of weights that a constructor loads
        Distribution.set_default_validate_args(False)  # Mixup's, which reads values of tensors
        try:
            with torch.device("meta"):
                return MODELS.build(cfg.model)
        except (NotImplementedError, RuntimeError):  # a constructor that reads them too
            return MODELS.build(cfg.model).to("meta")
        finally:
            Distribution.set_default_validate_args(__debug__)


def read_checkpoint(source: str, device: str = "cpu") -> dict:
    """Read a checkpoint.

    Args:
        source: File or address; PyTorch or ``.safetensors``.
        device: Device of the tensors; ``'meta'`` to read names and shapes only.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is damaged, or not a checkpoint.
        pickle.UnpicklingError: If loading it could run code.
    """
    if source.endswith(CONFIG_SUFFIXES):
        raise ValueError(f"{source} is a config, not a checkpoint; the config comes first")
    try:
        content = CheckpointLoader.load_checkpoint(source, map_location=device, logger="silent")
    except (EOFError, RuntimeError) as error:
        reason = str(error).partition("\n")[0] or "it ends too early"
        raise ValueError(f"{source} is damaged: {reason}") from error
    if not isinstance(content, Mapping) or not isinstance(_state(content), Mapping):
        raise ValueError(f"{source} must hold tensors by name, got a {type(content).__name__}")
    return dict(content)


def load_weights(model: nn.Module, checkpoint: Mapping[str, object]) -> Fit:
    """Load the tensors of a checkpoint that fit a model, and return how it fits.

    The checkpoint is a state dict, or holds one as ``state_dict``. A leading ``module.`` of names
    is ignored.
    """
    own = model.state_dict()
    state = _state(checkpoint).items()
    state = {k.removeprefix("module."): v for k, v in state if isinstance(v, Tensor)}
    reshaped: dict[str, str] = {}
    try:
        wrong = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        for name in re.findall(r"size mismatch for (\S+):", str(error)):
            sizes = tuple(state.pop(name).shape), tuple(own[name].shape)
            reshaped[name] = f"{name} {sizes[0]} instead of {sizes[1]}"
        if not reshaped:
            raise
        wrong = model.load_state_dict(state, strict=False)
    # Batch norms of old files count no batches; a model of features has no head.
    has_head = any(name.startswith(HEAD) for name in own)
    optional = (*reshaped, *(name for name in own if name.endswith("num_batches_tracked")))
    return Fit(
        frozenset(own.keys() & state.keys()),
        tuple(name for name in wrong.missing_keys if name not in optional),
        tuple(name for name in wrong.unexpected_keys if has_head or not name.startswith(HEAD)),
        reshaped,
    )


def compare_weights(meta_model: nn.Module, checkpoint: Mapping[str, object]) -> Fit:
    """Compare a checkpoint with a model from ``build_meta_model`` by names and shapes."""
    state = {k: v.to("meta") for k, v in _state(checkpoint).items() if isinstance(v, Tensor)}
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # loading will log which tables are resized
    try:
        return load_weights(meta_model, state)
    finally:
        logging.disable(disabled)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _state(checkpoint: Mapping) -> object:
    return checkpoint.get("state_dict", checkpoint)
