import logging
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.checkpoints.on_load import convert_for
from mmvidformer.checkpoints.partial import Device, load_from_source
from mmvidformer.config import CONFIG_SUFFIXES
from mmvidformer.config.building import building
from mmvidformer.errors import UserError

HEAD = ("cls_head.", "decoder.", "to_decoder.", "to_pixels.", "mask_token")  # or of pretraining
Purpose = Literal["evaluation", "features", "resume", "start"]


logger = logging.getLogger("mmvidformer")


class WrongWeights(UserError):
    """Weights that do not fit a model."""


class Fit(NamedTuple):
    """How a state dict fits a model; ``reshaped`` has both shapes, ``str()`` counts misfits."""

    matched: Set[str]
    missing: Sequence[str]
    unexpected: Sequence[str]
    reshaped: Mapping[str, str]

    def misfits(self) -> set[str]:
        """Names that are missing, unexpected or of another shape."""
        return {*self.missing, *self.unexpected, *self.reshaped}

    def check(self, source: str, purpose: Purpose) -> None:
        """Raise ``WrongWeights`` unless the weights of ``source`` are good enough for a purpose.

        Evaluating and resuming need an exact fit, features an exact fit except for the head. To
        start training, half of the tensors of the backbone are enough.
        """
        wrong = self.misfits()
        if purpose == "features":
            wrong = {name for name in wrong if not name.startswith(HEAD)}
        elif purpose == "start":
            expected = {*self.matched, *self.missing, *self.reshaped}
            body = {name for name in expected if name.startswith("backbone.")} or expected
            wrong = set() if 2 * len(body & self.matched) >= len(body) else wrong
        if wrong:
            hint = "" if self.matched else "; none of the model's names is in it"
            raise WrongWeights(f"{source} does not fit the model of the config: {self}{hint}")

    def __str__(self) -> str:
        misfits = {"missing": self.missing, "unexpected": self.unexpected}
        misfits["of another shape"] = [*self.reshaped.values()]
        texts = []
        for misfit, names in misfits.items():
            shown = [*names[:3], "..."] if len(names) > 3 else names
            texts += [f"{len(names)} {misfit} ({', '.join(shown)})"] if names else []
        return "; ".join(texts)


def load_recognizer(
    cfg: Config, checkpoint: str | None, device: Device = "cpu", head: bool = True
) -> nn.Module:
    """Build the recognizer of a config for evaluation, with the ``dataset_meta`` of its weights.

    Args:
        cfg: Config of a recognizer.
        checkpoint: File or address of the weights; None for initial weights.
        device: Device of the model; None: ``default_device()``.
        head: Whether the weights of the head must fit too.

    Raises:
        OSError: If the file does not exist, or cannot be fetched.
        UserError: If the device cannot be used.
        WrongWeights: If the weights do not fit the model, or are no numbers.
    """
    with building(cfg):
        model = MODELS.build(for_evaluation(cfg.model))
    model.dataset_meta = {}
    if checkpoint is None:
        with _quiet():  # MMEngine logs a line for each weight
            model.init_weights()
    else:
        content = read_checkpoint(checkpoint, model)
        load_weights(model, content).check(checkpoint, "evaluation" if head else "features")
        _check_numbers(model, checkpoint)
        warn_of_pixels(cfg, content, checkpoint)
        model.dataset_meta.update(_part(_part(content, "meta"), "dataset_meta"))
    try:
        return model.to(device or default_device()).eval()
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"the device {str(device)!r} cannot be used: {error}") from error


def for_evaluation(model: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the config of a model without what only changes batches in training."""
    preprocessor = model.get("data_preprocessor")
    if not isinstance(preprocessor, Mapping):
        return dict(model)
    kept = {
        name: part for name, part in preprocessor.items() if name not in ("augment", "blending")
    }
    return {**model, "data_preprocessor": kept}


def _check_numbers(model: nn.Module, source: str) -> None:
    """Raise ``WrongWeights`` if weights are NaN, as those of a run that diverged are."""
    for name, value in model.state_dict().items():
        if value.is_floating_point() and value.isnan().any():
            raise WrongWeights(f"{source} has values that are no numbers (NaN), such as in {name}")


def default_device() -> str:
    """Device of inference: the GPU if PyTorch finds one with CUDA or ROCm, or else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def warn_of_pixels(cfg: Config, checkpoint: Mapping, source: str) -> None:
    """Warn if a converted checkpoint needs other pixel statistics than a config sets."""
    preprocessor = (cfg.get("model") or {}).get("data_preprocessor") or {}
    for key in ("mean", "std"):
        needed, used = _part(checkpoint, "meta").get(key), preprocessor.get(key)
        if needed and used and not np.allclose(needed, used, atol=0.01):
            what = f"model.data_preprocessor.{key} is {used}, but {source} needs {needed}"
            logger.warning(what)


def _part(content: Mapping, name: str) -> Mapping:
    """Return a part of a checkpoint that has names; an empty one if it is of another type."""
    part = content.get(name)
    return part if isinstance(part, Mapping) else {}


def build_meta_model(cfg: Config) -> nn.Module:
    """Build the model of a config on the meta device, without weights and data preprocessor."""
    # Mixup in a preprocessor reads values of tensors.
    settings = {name: part for name, part in cfg.model.items() if name != "data_preprocessor"}
    with building(cfg), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # of weights that a constructor loads
        try:
            with torch.device("meta"):
                return MODELS.build(settings)
        except (NotImplementedError, RuntimeError):  # a constructor that reads values too
            return MODELS.build(settings).to("meta")


def read_checkpoint(source: str, model: nn.Module, device: str = "cpu") -> dict:
    """Read a checkpoint for a model; convert it if the model's backbone is this package's.

    Args:
        source: File, folder or address (``mmvidformer.checkpoints.addresses``).
        model: A recognizer.
        device: Device of the tensors; ``'meta'`` to read names and shapes only.

    Raises:
        OSError: If the file does not exist, or cannot be fetched.
        UserError: If it is damaged, not a checkpoint, or could run code.
    """
    if source.endswith(CONFIG_SUFFIXES):
        raise UserError(f"{source} is a config, not a checkpoint; the config comes first")
    content = load_from_source(source, device)
    if not isinstance(content, Mapping):
        raise UserError(f"{source} must hold tensors by name, got a {type(content).__name__}")
    content = dict(content)
    convert_for(model, content, source)
    return content


def model_of(runner: Any) -> nn.Module:
    """Return the model of a run, without what gathers gradients around it."""
    from mmengine.model import is_model_wrapper

    return runner.model.module if is_model_wrapper(runner.model) else runner.model


def load_weights(model: nn.Module, checkpoint: Mapping[str, Any]) -> Fit:
    """Load the tensors of a checkpoint that fit a model, and return how it fits.

    The checkpoint has gone through ``convert_for``. The model may be on the meta device.
    """
    wanted = model.state_dict()
    weights = checkpoint["state_dict"].items()
    state = {name: value for name, value in weights if isinstance(value, Tensor)}
    # Not of the state: other ranks of FSDP.
    if any(parameter.is_meta for parameter in model.parameters()):
        state = {name: value.to("meta") for name, value in state.items()}
    else:  # sparse tensors, and those without values, are as if they were not there
        state = {n: x for n, x in state.items() if x.layout == torch.strided and not x.is_meta}
    reshaped: dict[str, str] = {}
    with _quiet():
        try:
            missing, unexpected = model.load_state_dict(state, strict=False)
        except RuntimeError as error:
            for name in re.findall(r"size mismatch for (\S+):", str(error)):
                sizes = tuple(state.pop(name).shape), tuple(wanted[name].shape)
                reshaped[name] = f"{name} {sizes[0]} instead of {sizes[1]}"
            if not reshaped:
                raise
            missing, unexpected = model.load_state_dict(state, strict=False)
    matched = wanted.keys() - {*missing}
    # Batch norms of old files count no batches; a model of features has no head.
    missing = [n for n in missing if n not in reshaped and not n.endswith("num_batches_tracked")]
    if not any(name.startswith(HEAD) for name in wanted):
        unexpected = [name for name in unexpected if not name.startswith(HEAD)]
    return Fit(matched, missing, unexpected, reshaped)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let MMEngine log errors only, if it is imported."""
    module = sys.modules.get("mmengine.logging")
    if module is None:
        yield
        return
    its_logger = module.MMLogger.get_current_instance()
    level = its_logger.level
    its_logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        its_logger.setLevel(level)
