"""Shipped configs adapted to one's own labeled videos."""

from mmvidformer.finetune.fitting import fit_config
from mmvidformer.finetune.recipe import Recipe, apply_recipe

__all__ = ["Recipe", "apply_recipe", "fit_config"]
