"""A trained model with its config, its class names, and copies that are fast."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from mmengine.config import Config
from torch import nn

from mmvidformer.apis.factory import find_model
from mmvidformer.apis.names import class_names, class_tasks, known_names
from mmvidformer.config import config_name
from mmvidformer.models.inference import frames_of_stage, optimize_for_inference, reuse_frames
from mmvidformer.tasks.table import find_task, task_of_head


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
        head = self._model.cls_head
        if not names:
            self.names = class_names(tasks, None, known_names(self.cfg, self._model))
        self.task = find_task(self.cfg.task) if self.cfg.get("task") else task_of_head(head)
        # Copies for clips and for single frames; None: the model itself.
        is_transformer = hasattr(self._model.backbone, "encoders")
        fast = optimize_for_inference(self._model, share_weights=True) if is_transformer else None
        self._fast, self._fast_frames = fast, fast
        if frames_of_stage(self._model):
            self._fast = reuse_frames(fast or self._model)

    @property
    def model(self) -> nn.Module:
        """The model itself, which is used as it is from now on, since you may change it."""
        self._fast = self._fast_frames = None
        return self._model

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self._model.parameters()).device

    def __repr__(self) -> str:
        optimized = ", optimized for inference" if self._fast else ""
        name = type(self._model.backbone).__name__
        if self.cfg.filename:
            name = f"{config_name(self.cfg.filename)} ({name})"
        return f"{name} on {self.device}{optimized}"
