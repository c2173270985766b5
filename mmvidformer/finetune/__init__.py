"""Shipped configs adapted to one's own labeled videos."""

from mmvidformer.finetune.fitting import fit_config
from mmvidformer.finetune.recipe import Recipe, apply_recipe
from mmvidformer.finetune.weights import start_from

__all__ = ["Recipe", "apply_recipe", "fit_config", "start_from"]
