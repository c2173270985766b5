"""A config and its model, loaded for inference."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from mmengine.config import Config
from torch import nn

from mmvidformer.apis.predictions import class_names, class_tasks, known_names
from mmvidformer.config import config_name, load_config
from mmvidformer.convert.fetch import is_address
from mmvidformer.convert.published import PREFIX
from mmvidformer.models.inference import optimize_for_inference

PUBLISHED = "published"


def find_model(
    config: str | Path | Config, checkpoint: str | None = PUBLISHED
) -> tuple[Config, str | None]:
    """Find a config and the address of its weights; see ``Recognizer``."""
    named = isinstance(config, str | Path)
    if is_address(config) or (named and Path(config, "config.json").is_file()):
        from mmvidformer.finetune.checkpoint_config import config_of_checkpoint

        return config_of_checkpoint(config).cfg, str(config)
    if checkpoint == PUBLISHED:
        checkpoint = PREFIX + config_name(getattr(config, "filename", None) or str(config))
    return config if isinstance(config, Config) else load_config(str(config)), checkpoint


class LoadedModel:
    """A config, its class names by task and its model; see ``Recognizer``."""

    def __init__(
        self,
        config: str | Path | Config,
        checkpoint: str | None,
        device: str | torch.device | None,
        names: Mapping[str, Sequence[str]] | Sequence[str] | None,
    ) -> None:
        from mmvidformer.engine.loading import load_recognizer  # loads MMAction2's models

        self.cfg, checkpoint = find_model(config, checkpoint)
        tasks = class_tasks(self.cfg)
        # Checked before the model is loaded.
        self.names = class_names(tasks, names, self.cfg.get("class_names"))
        self._model = load_recognizer(self.cfg, checkpoint, device)
        fast = hasattr(self._model.backbone, "encoders")  # a VideoTransformer
        self._fast = optimize_for_inference(self._model, share_weights=True) if fast else None
        if not names:
            self.names = class_names(tasks, None, known_names(self.cfg, self._model))

    @property
    def model(self) -> nn.Module:
        """The model itself, which is used as it is from now on, since you may change it."""
        self._fast = None
        return self._model

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self._model.parameters()).device

    def __repr__(self) -> str:
        optimized = ", optimized for inference" if self._fast else ""
        return f"{type(self._model.backbone).__name__} on {self.device}{optimized}"


def anticipates(model: nn.Module) -> bool:
    """Whether a model predicts what comes next, as ``AnticipationHead`` does."""
    return hasattr(model.cls_head, "logged_time")
